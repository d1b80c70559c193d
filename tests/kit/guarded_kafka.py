"""A broker that insists on TLS, on logins or on certificates."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kit.certificates import Authority, authority

from tidegate.config.kafka import KafkaConfig
from tidegate.stack.kafka import Kafka
from tidegate.stack.server import free_port


class GuardedKafka(Kafka):
    """Beside its plain listener one that wants TLS and a login, and one that wants a certificate of its clients."""

    def __init__(self, folder: Path, key_store: Path, ca: Path) -> None:
        super().__init__(folder)
        self.guarded_port, self.mutual_port = free_port(), free_port()
        self._key_store, self._ca = key_store, ca

    def prepare(self) -> None:
        super().prepare()
        file = self.folder / "server.properties"
        text = file.read_text()
        for name in ("listeners", "advertised.listeners"):
            more = f"SASL_SSL://localhost:{self.guarded_port},MUTUAL://localhost:{self.mutual_port}"
            text = text.replace(f"\n{name}=", f"\n{name}={more},")
        text = text.replace("PLAINTEXT:PLAINTEXT,", "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,MUTUAL:SSL,")
        login = "org.apache.kafka.common.security"
        users = 'username="broker" password="broker" user_reader="plain-secret"'
        file.write_text(
            f"{text}sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n"
            f"listener.name.sasl_ssl.plain.sasl.jaas.config={login}.plain.PlainLoginModule required {users};\n"
            f"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config={login}.scram.ScramLoginModule required;\n"
            f"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={login}.scram.ScramLoginModule required;\n"
            f"ssl.keystore.type=PEM\nssl.keystore.location={self._key_store}\n"
            f"ssl.truststore.type=PEM\nssl.truststore.location={self._ca}\n"
            "listener.name.mutual.ssl.client.auth=required\n"
        )


@dataclass(frozen=True)
class Broker:
    server: GuardedKafka
    ca: Authority
    other: Authority

    def login(self, mechanism: str, **security: Any) -> dict[str, Any]:
        """The `kafka` of a pipeline; the password is in KAFKA_SECRET."""
        user = {"mechanism": mechanism, "username": "reader", "password": "${env:KAFKA_SECRET}"}
        security = {"protocol": "SASL_SSL"} | user | security
        return {"bootstrap": f"localhost:{self.server.guarded_port}", "security": security}

    def certified(self, name: str) -> dict[str, Any]:
        """Of a client with a certificate."""
        certificate, key = self.ca.issue(name, name)
        files = {"ca": str(self.ca.ca), "cert": str(certificate), "key": str(key)}
        return {"bootstrap": f"localhost:{self.server.mutual_port}", "security": {"protocol": "SSL"} | files}

    def config(self, mechanism: str, **security: Any) -> KafkaConfig:
        return KafkaConfig.model_validate_json(json.dumps(self.login(mechanism, **security)))


@contextmanager
def guarded_broker(folder: Path) -> Iterator[Broker]:
    """Users, by each mechanism: `reader`."""
    ca, other = authority(folder), authority(folder, "other")
    certificate, key = ca.issue("broker", "localhost", "DNS:localhost")
    store = folder / "store.pem"
    store.write_text(key.read_text() + certificate.read_text())
    server = GuardedKafka(folder / "kafka", store, ca.ca)
    server.start()
    try:
        admin = AdminClient({"bootstrap.servers": server.bootstrap})
        kinds = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        for kind in kinds:
            wanted = UserScramCredentialUpsertion("reader", ScramCredentialInfo(kind, 4096), b"scram-secret")
            admin.alter_user_scram_credentials([wanted])["reader"].result(20)
        yield Broker(server, ca, other)
    finally:
        server.stop()
