"""Options of the `pg_table` sink."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from tidegate.config.base import Model
from tidegate.config.problems import refuse
from tidegate.config.secret import Secret
from tidegate.config.source import HOST_PATTERN, PostgresName, SourceTls, dsn_fields, dsn_holds_password

_PLACEHOLDER = re.compile(r"\{(pipeline|schema|table)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _plain_address(value: str) -> str:
    if dsn_holds_password(value):
        raise refuse(
            code="CREDENTIALS_IN_URL",
            reason="a password in an address ends up in logs and process lists",
            remedy="Remove it and set password: ${env:TARGET_PASSWORD}.",
        )
    fields = dsn_fields(value)
    if fields is None or not re.fullmatch(HOST_PATTERN, str(fields["host"]), re.ASCII) or _CONTROL.search(value):
        raise refuse(
            code="DSN_FORM",
            reason="not of the form postgresql://user@host:5432/database",
            remedy="Parameters such as sslmode belong to tls; anything else has no place in it.",
        )
    return value


def _template(value: str) -> str:
    rest = _PLACEHOLDER.sub("", value)
    if "{" in rest or "}" in rest or _CONTROL.search(value):
        raise refuse(
            code="SINK_PG_TEMPLATE",
            reason="no template of PostgreSQL names",
            remedy="Use {pipeline}, {schema}, {table} and text without braces.",
        )
    return value


Template = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_template)]


class PgTableOptions(Model):
    dsn: Annotated[str, AfterValidator(_plain_address)] = Field(
        max_length=2_000, description="The target, `postgresql://user@host:5432/database`."
    )
    password: Secret | None = Field(None, description="Password of the role.")
    tls: SourceTls = Field(SourceTls(), description="How the connection is protected.")
    target_schema: Template = Field("{schema}", alias="schema", description="Schema of a table's target.")
    table: Template = Field("{table}", description="Name of a table's target.")
    create: bool = Field(
        True,
        description="Make schemas, tables and columns that are missing, and alter tables as the source's are. false: "
        "stop the lane and say which.",
    )
    state_schema: PostgresName = Field(
        "tidegate", description="Schema of the table `sink_state`, which holds the lane's place. It is made if missing."
    )


def expand(template: str, pipeline: str, schema: str, table: str) -> str:
    names = {"pipeline": pipeline, "schema": schema, "table": table}
    return _PLACEHOLDER.sub(lambda match: names[match[1]], template)
