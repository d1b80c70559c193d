"""Settings of Kafka's clients, made in one way for librdkafka and for Spark's own consumer; and the raw topic's id."""

import uuid
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from tidegate.config.kafka import KafkaConfig, Mechanism
from tidegate.errors import TransientError

_CALL_SECONDS = 10.0
_HALF = 2**64 - 1


def librdkafka_settings(config: KafkaConfig) -> dict[str, Any]:
    security = config.security
    settings: dict[str, Any] = {"bootstrap.servers": config.bootstrap, "security.protocol": security.protocol.lower()}
    if security.protocol.has_sasl:
        settings |= {
            "sasl.mechanism": security.mechanism,
            "sasl.username": security.username,
            "sasl.password": security.password.reveal() if security.password else None,
        }
    files = {
        "ssl.ca.location": security.ca,
        "ssl.certificate.location": security.cert,
        "ssl.key.location": security.key,
    }
    return settings | {name: path for name, path in files.items() if path}


def spark_options(config: KafkaConfig) -> dict[str, str]:
    security = config.security
    options = {"kafka.bootstrap.servers": config.bootstrap, "kafka.security.protocol": str(security.protocol)}
    if security.protocol.has_sasl:
        options["kafka.sasl.mechanism"] = str(security.mechanism)
        options["kafka.sasl.jaas.config"] = _jaas(config)
    if security.ca:
        options |= {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": security.ca}
    return options


def topic_id(config: KafkaConfig, topic: str) -> str:
    """An offset counts only with this id: a topic that was deleted and made again has another one."""
    admin = AdminClient(librdkafka_settings(config))
    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=_CALL_SECONDS)[topic].result()
    except KafkaException as error:
        raise TransientError(
            f"Kafka did not describe the raw topic: {error.args[0].name()}",
            code="RAW_TOPIC_UNKNOWN",
            remedy="Check the brokers and the user's right to describe the topic; the lane starts again.",
        ) from error
    found = described.topic_id
    halves = found.get_most_significant_bits() & _HALF, found.get_least_significant_bits() & _HALF
    return str(uuid.UUID(int=halves[0] << 64 | halves[1]))


def _jaas(config: KafkaConfig) -> str:
    security = config.security
    module = "plain.PlainLoginModule" if security.mechanism is Mechanism.PLAIN else "scram.ScramLoginModule"
    password = security.password.reveal() if security.password else ""
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in (security.username or "", password)]
    return f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
