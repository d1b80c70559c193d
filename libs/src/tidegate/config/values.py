"""What a checked configuration holds beside text, numbers and sections: closed sets of words, and addresses.

Invariant: nothing here imports the validator, so that a process which is handed a checked configuration can do without
it (`apart.py`).
"""

from enum import StrEnum
from typing import NamedTuple


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    AUTO = "auto"
    JSON = "json"
    TEXT = "text"


class Protocol(StrEnum):
    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_sasl(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)

    @property
    def has_tls(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)


class Mechanism(StrEnum):
    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class Compression(StrEnum):
    NONE = "none"
    LZ4 = "lz4"
    ZSTD = "zstd"
    SNAPPY = "snappy"
    GZIP = "gzip"


class TlsMode(StrEnum):
    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


class WithoutIdentity(StrEnum):
    REFUSE = "refuse"
    ALLOW = "allow"


class OnLost(StrEnum):
    FAIL = "fail"
    RESNAPSHOT = "resnapshot"


class SnapshotMode(StrEnum):
    NEVER = "never"
    INITIAL = "initial"
    INITIAL_ONLY = "initial_only"
    ALWAYS = "always"


class SinkType(StrEnum):
    """The names of the processor's sink registry."""

    KAFKA_TOPICS = "kafka_topics"
    STDOUT = "stdout"
    FILE = "file"
    PG_TABLE = "pg_table"


class Trigger(StrEnum):
    REALTIME = "realtime"
    BATCH = "batch"
    AUTO = "auto"


class StartFrom(StrEnum):
    NOW = "now"
    EARLIEST = "earliest"
    SNAPSHOT = "snapshot"


class ToastPolicy(StrEnum):
    MARK = "mark"
    PREVIOUS = "previous"
    REQUIRE_FULL = "require_full"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
