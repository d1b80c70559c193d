"""Settings of Kafka's clients, made in one way for librdkafka and for Spark's own consumer."""

from typing import Any

from tidegate.config.kafka import KafkaConfig, Mechanism


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


def _jaas(config: KafkaConfig) -> str:
    security = config.security
    module = "plain.PlainLoginModule" if security.mechanism is Mechanism.PLAIN else "scram.ScramLoginModule"
    password = security.password.reveal() if security.password else ""
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in (security.username or "", password)]
    return f'org.apache.kafka.common.security.{module} required username="{quoted[0]}" password="{quoted[1]}";'
