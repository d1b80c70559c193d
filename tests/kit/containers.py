"""The servers as containers, with the attributes of the embedded ones. A port stays the same over a restart."""

from abc import ABC, abstractmethod

import psycopg
import redis
from kit.wait import wait
from psycopg import sql
from testcontainers.core.container import DockerContainer

from tidegate.stack.kafka import broker_answers
from tidegate.stack.server import HOST, free_port

READY_SECONDS = 90.0
PASSWORD = "tidegate-tests"


class ContainerServer(ABC):
    def __init__(self) -> None:
        self.host = HOST
        self.port = free_port()
        self._container: DockerContainer | None = None

    @abstractmethod
    def describe(self) -> DockerContainer: ...

    @abstractmethod
    def answers(self) -> bool: ...

    def start(self) -> None:
        if self._container is None:
            self._container = self.describe()
            self._container.start()
        else:
            self._container.get_wrapped_container().start()
        try:
            wait(self._answers_or_ended, READY_SECONDS, f"{type(self).__name__} answers", every_seconds=0.1)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        if self._container is not None:
            self._container.stop()
            self._container = None

    def kill(self) -> None:
        if self._container is not None:
            self._container.get_wrapped_container().kill()

    def restart(self) -> None:
        if self._container is not None:
            self._container.get_wrapped_container().stop()
        self.start()

    def _answers_or_ended(self) -> bool:
        if self.answers():
            return True
        assert self._container is not None
        container = self._container.get_wrapped_container()
        container.reload()
        assert container.status != "exited", f"the container ended: {container.logs(tail=5).decode()}"
        return False


class ContainerPostgres(ContainerServer):
    user = "tidegate"
    password = PASSWORD

    def describe(self) -> DockerContainer:
        return (
            DockerContainer("postgres:18")
            .with_bind_ports(5432, self.port)
            .with_env("POSTGRES_USER", self.user)
            .with_env("POSTGRES_PASSWORD", self.password)
            .with_env("POSTGRES_DB", "postgres")
            .with_command(
                "postgres -c wal_level=logical -c max_wal_senders=20 -c max_replication_slots=20 "
                "-c max_prepared_transactions=10 -c fsync=off"
            )
        )

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{database}"

    def ensure_database(self, name: str) -> str:
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False


class ContainerRedis(ContainerServer):
    password = PASSWORD

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@{self.host}:{self.port}/0"

    def describe(self) -> DockerContainer:
        arguments = f"redis-server --requirepass {self.password} --appendonly yes --maxmemory-policy noeviction"
        return DockerContainer("redis:7").with_bind_ports(6379, self.port).with_command(arguments)

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2, retry=None) as client:
                return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False


class ContainerKafka(ContainerServer):
    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def describe(self) -> DockerContainer:
        container = DockerContainer("apache/kafka:4.3.1").with_bind_ports(self.port, self.port)
        for name, value in self._settings().items():
            container.with_env(f"KAFKA_{name.upper().replace('.', '_')}", value)
        return container

    def answers(self) -> bool:
        return broker_answers(self.host, self.port)

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": "1@localhost:29093",
            "listeners": f"PLAINTEXT://0.0.0.0:{self.port},CONTROLLER://localhost:29093",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "auto.create.topics.enable": "false",
            "message.max.bytes": "16777216",
            "replica.fetch.max.bytes": "16777216",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
