"""Where the changes come from: connection, slot, publication, heartbeat.

Invariant: no credential stands in an address, and a slot or publication name is one that PostgreSQL takes.
"""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from tidegate.config.base import Duration, Many, Model, Size
from tidegate.config.problems import refuse
from tidegate.config.secret import Secret
from tidegate.config.tables import MAX_NAME_BYTES, TablePattern
from tidegate.config.values import OnLost as OnLost
from tidegate.config.values import TlsMode as TlsMode
from tidegate.config.values import WithoutIdentity as WithoutIdentity

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
HOST_PATTERN = r"^(/[^\s,]{1,100}|[A-Za-z0-9._:%-]{1,253})$"
_DSN_FIELDS = ("host", "port", "database", "user")


def _postgres_name(value: str) -> str:
    if not value or _CONTROL.search(value) or len(value.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        raise refuse(
            code="CONFIG_NAME",
            reason="a PostgreSQL name has 1 to 63 bytes and no control characters",
            remedy="Write the name as the catalogue shows it.",
        )
    return value


PostgresName = Annotated[str, AfterValidator(_postgres_name)]


class SourceTls(Model):
    mode: TlsMode = Field(
        TlsMode.PREFER,
        description="As libpq's sslmode. `prefer` and `require` verify nobody; with `ca` the default is verify-full.",
    )
    ca: str | None = Field(None, min_length=1, description="Certificates of the authorities to trust (PEM file).")
    cert: str | None = Field(None, min_length=1, description="Our certificate (PEM file), if the server asks for one.")
    key: str | None = Field(None, min_length=1, description="The private key of `cert` (PEM file).")

    @model_validator(mode="before")
    @classmethod
    def _verify_when_ca_is_given(cls, data: Any) -> Any:  # as it came from the file
        if isinstance(data, dict) and data.get("ca") is not None and "mode" not in data:
            return {**data, "mode": TlsMode.VERIFY_FULL.value}
        return data

    @field_validator("ca")
    @classmethod
    def _ca_is_used(cls, ca: str | None, info: ValidationInfo) -> str | None:
        if ca is not None and info.data.get("mode") in (TlsMode.DISABLE, TlsMode.PREFER, TlsMode.REQUIRE):
            raise refuse(
                code="TLS_UNVERIFIED",
                reason="authorities are given, but this mode does not verify the server",
                remedy="Set mode: verify-full, or remove ca.",
            )
        return ca

    @field_validator("key")
    @classmethod
    def _key_belongs_to_cert(cls, key: str | None, info: ValidationInfo) -> str | None:
        if "cert" in info.data and (key is None) != (info.data["cert"] is None):
            raise refuse(
                code="TLS_KEY_PAIR", reason="cert and key belong together", remedy="Give both of them or neither."
            )
        return key


class Slot(Model):
    name: str = Field("", pattern=r"^[a-z0-9_]{0,63}$", description="Replication slot. Default: `tidegate_<pipeline>`.")
    create: bool = Field(
        True, description="Create the slot at the first start. A lost slot is created again only by `on_lost`."
    )
    temporary: bool = Field(False, description="Drop the slot when the reader stops: for trials only.")
    failover: bool = Field(False, description="Synchronise the slot to standbys (PostgreSQL 17 and later).")

    wal_budget: Size | None = Field(
        None,
        ge=64 * 2**20,
        description="How much WAL the slot may hold: half of it is told as yellow, four fifths as red. Where the server"
        " allows less (`max_slot_wal_keep_size`) that counts; 10 GiB where neither says anything.",
    )

    on_lost: OnLost = Field(
        OnLost.FAIL,
        description="What is done where the slot is gone, invalidated or beyond what sinks have and raw topic holds."
        " `fail`: the reader ends (exit 3), a person decides. `resnapshot`: the slot is made anew if it has to be"
        " (`create`), the gap is announced, and all tables are read once, whatever `snapshot.mode` says; at most three"
        " times a day. Rows that were deleted in the gap stay in sinks that keep rows by key.",
    )

    @field_validator("on_lost")
    @classmethod
    def _what_is_dropped_at_every_stop_is_not_lost(cls, on_lost: OnLost, info: ValidationInfo) -> OnLost:
        if on_lost is OnLost.RESNAPSHOT and info.data.get("temporary"):
            raise refuse(
                code="SLOT_TEMPORARY_RESNAPSHOT",
                reason="a temporary slot is gone at every stop, so every start would read all tables",
                remedy="Set temporary: false or on_lost: fail.",
            )
        return on_lost

    @field_validator("failover")
    @classmethod
    def _failover_outlives_us(cls, failover: bool, info: ValidationInfo) -> bool:
        if failover and info.data.get("temporary"):
            raise refuse(
                code="SLOT_TEMPORARY_FAILOVER",
                reason="a temporary slot cannot fail over",
                remedy="Set temporary: false or failover: false.",
            )
        return failover


class Limit(Model):
    table: TablePattern = Field(description="One of `tables`.")
    columns: Many[PostgresName] = Field((), max_length=1_600, description="Publish these alone. Default: all.")
    where: str | None = Field(
        None, min_length=1, max_length=10_000, description="Publish rows for which this SQL expression is true."
    )


class Publication(Model):
    manage: bool = Field(True, description="true: create it and keep its tables as listed here. false: use `names`.")
    name: str = Field("", max_length=63, description="The managed publication. Default: `tidegate_<pipeline>`.")
    all_tables: bool = Field(
        False,
        description="Publish every table. UPDATE and DELETE then fail in your application on tables without identity.",
    )
    tables: Many[TablePattern] = Field((), max_length=10_000, description="`schema.table` or `schema.*`.")
    limits: Many[Limit] = Field(
        (), max_length=10_000, description="What of a table is published (PostgreSQL 15 and later). Default: all of it."
    )
    names: Many[PostgresName] = Field((), max_length=1_000, description="Publications that exist already.")
    without_identity: WithoutIdentity = Field(
        WithoutIdentity.REFUSE,
        description="Tables on which UPDATE and DELETE will fail once they are published: `refuse` to start, or `allow`"
        " them, because they are only inserted into.",
    )
    publish_via_partition_root: bool = Field(True, description="Publish a partition's changes as its root table's.")

    @field_validator("tables")
    @classmethod
    def _tables_say_what_to_publish(
        cls, tables: tuple[TablePattern, ...], info: ValidationInfo
    ) -> tuple[TablePattern, ...]:
        wanted = info.data.get("manage") is True and info.data.get("all_tables") is False
        if "manage" in info.data and "all_tables" in info.data and wanted != bool(tables):
            raise refuse(
                code="PUBLICATION_TABLES",
                reason="a managed publication has either tables or all_tables: true; a given one has neither",
                remedy="List tables: [public.orders], or set all_tables: true, or manage: false with names.",
            )
        if not all(table.is_exact or table.is_whole_schema for table in tables):
            raise refuse(
                code="PUBLICATION_PATTERN",
                reason="a publication takes whole tables and whole schemas",
                remedy="Write public.orders or public.*; narrow it further in a sink's routes.",
            )
        return tables

    @field_validator("limits")
    @classmethod
    def _limits_are_of_listed_tables(cls, limits: tuple[Limit, ...], info: ValidationInfo) -> tuple[Limit, ...]:
        listed = [table for table in info.data.get("tables", ()) if table.is_exact]
        limited = [limit.table for limit in limits]
        if "tables" in info.data and not (all(each in listed for each in limited) and len(set(limited)) == len(limits)):
            raise refuse(
                code="PUBLICATION_LIMITS",
                reason="a limit is of one of the tables that are listed one by one, once",
                remedy="List the table under tables, as schema.table, and give it one limit.",
            )
        return limits

    @field_validator("names")
    @classmethod
    def _names_only_when_given(cls, names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "manage" in info.data and info.data["manage"] == bool(names):
            raise refuse(
                code="PUBLICATION_NAMES",
                reason="names is for publications that are not managed here",
                remedy="Set manage: false and list names: [mine], or remove names.",
            )
        return names


class Heartbeat(Model):
    interval: Duration = Field(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="How often a small transactional message is written, so that a quiet database holds no WAL.",
    )


def _dsn_may_stand_for_fields(schema: dict[str, Any]) -> None:
    schema["required"] = [name for name in schema["required"] if name not in _DSN_FIELDS]


class PostgresSource(Model):
    model_config = ConfigDict(json_schema_extra=_dsn_may_stand_for_fields)

    type: Literal["postgres"] = Field("postgres", description="The kind of source.")
    host: str = Field(
        pattern=HOST_PATTERN, description="Host name, address, or the folder of a Unix socket. This or `dsn`."
    )
    port: int = Field(5432, ge=1, le=65_535, description="Port.")
    database: PostgresName = Field(description="Database: a slot sees the changes of one. This or `dsn`.")
    user: PostgresName = Field(description="Role with REPLICATION. This or `dsn`.")
    dsn: str | None = Field(
        None, description="`postgresql://user@host:5432/database` in place of host, port, database and user."
    )
    password: Secret | None = Field(None, description="Password of the role.")
    tls: SourceTls = Field(SourceTls(), description="How the connection is protected.")
    slot: Slot = Field(Slot(), description="The replication slot.")
    publication: Publication = Field(description="What is published.")
    heartbeat: Heartbeat = Field(Heartbeat(), description="Keeps a quiet database from holding WAL.")

    @model_validator(mode="before")
    @classmethod
    def _dsn_gives_the_fields(cls, data: Any) -> Any:  # as it came from the file
        """Only fills in; whether the DSN is right is said at its own path."""
        if not isinstance(data, dict) or not isinstance(data.get("dsn"), str):
            return data
        fields = dsn_fields(data["dsn"]) or {"host": "unknown", "database": "unknown", "user": "unknown"}
        return {**fields, **data}

    @field_validator("dsn")
    @classmethod
    def _dsn_is_plain(cls, dsn: str | None, info: ValidationInfo) -> str | None:
        if dsn is None:
            return None
        fields = dsn_fields(dsn)
        if dsn_holds_password(dsn):
            raise refuse(
                code="CREDENTIALS_IN_URL",
                reason="a password in an address ends up in logs and process lists",
                remedy="Remove it and set password: ${env:PGPASSWORD}.",
            )
        if fields is None:
            raise refuse(
                code="DSN_FORM",
                reason="not of the form postgresql://user@host:5432/database",
                remedy="Parameters such as sslmode belong to tls; anything else to its own field.",
            )
        if any(name in info.data and info.data[name] != value for name, value in fields.items()):
            raise refuse(
                code="DSN_AND_FIELDS",
                reason="host, port, database or user stand beside the dsn and say something else",
                remedy="Give the dsn or the fields.",
            )
        return dsn


def dsn_holds_password(dsn: str) -> bool:
    """Also where the address does not parse: `postgresql://a:p#w@host/db`."""
    _, _, rest = dsn.partition("://")
    userinfo, at, _ = rest.rpartition("@")
    return (bool(at) and ":" in userinfo) or "password" in dsn.lower()


def dsn_fields(dsn: str) -> dict[str, str | int] | None:
    try:
        parts = urlsplit(dsn)
        port = parts.port
    except ValueError:
        return None
    database = unquote(parts.path.removeprefix("/"))
    wrong = parts.scheme not in ("postgresql", "postgres") or parts.query or parts.fragment or "/" in database
    if wrong or not parts.hostname or not parts.username or not database:
        return None
    fields: dict[str, str | int] = {"host": parts.hostname, "database": database, "user": unquote(parts.username)}
    return fields if port is None else {**fields, "port": port}
