"""Names of topics, made from names that may hold anything.

Invariant: where the template parts its placeholders with a dot, two different (pipeline, schema, table) never share a
topic. Kafka takes [a-zA-Z0-9._-], at most 249 of them, and neither "." nor "..". Every other byte of a name's UTF-8 is
written `_xHH_`, a dot too, since dots part the names; and `_` where it would begin a look-alike of that.
"""

import re

from tidegate.errors import ConfigError, RecordError

LONGEST = 249
"""Kafka's limit (org.apache.kafka.common.internals.Topic.MAX_NAME_LENGTH)."""

DEFAULT_TEMPLATE = "{pipeline}.{schema}.{table}"

_PLACEHOLDER = re.compile(r"\{(pipeline|schema|table)\}")
_LITERAL = re.compile(r"[a-zA-Z0-9._-]*")
_ESCAPE = re.compile(rb"[^a-zA-Z0-9_-]|_(?=x[0-9A-F]{2})")


def topic_name(template: str, pipeline: str, schema: str, table: str) -> str:
    check_template(template)
    names = {"pipeline": pipeline, "schema": schema, "table": table}
    topic = _PLACEHOLDER.sub(lambda match: escape(names[match[1]]), template)
    if len(topic) > LONGEST:
        raise RecordError(
            f"a topic name of {len(topic)} characters, Kafka takes {LONGEST}",
            code="TOPIC_NAME_TOO_LONG",
            remedy="Give this table a topic of its own in the sink's routes, or shorten the template.",
        )
    return topic


def check_template(template: str) -> None:
    """What any template must be, whatever names it meets."""
    rest = _PLACEHOLDER.sub("", template)
    if not template or not _LITERAL.fullmatch(rest) or template in (".", ".."):
        raise ConfigError(
            f"{template!r} is no template of topic names",
            code="TOPIC_TEMPLATE_INVALID",
            remedy="Use {pipeline}, {schema}, {table}, letters, digits, dot, dash and underscore.",
        )


def escape(name: str) -> str:
    return _ESCAPE.sub(lambda match: b"_x%02X_" % match[0][0], name.encode()).decode("ascii")
