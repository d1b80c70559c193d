"""A real Kafka: one KRaft process that is broker and controller, on loopback, without ZooKeeper or replicas.

Ready means that the broker lists itself in its own metadata: before that it is fenced and takes no produce.
"""

import base64
import socket
import struct
import uuid
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from typing import ClassVar

from tidegate.errors import TransientError
from tidegate.stack.identity import StopSteps, end_leftover
from tidegate.stack.jars import ensure
from tidegate.stack.jvm import find_java
from tidegate.stack.process import ChildProcess, Command, tail
from tidegate.stack.server import Progress, Server, free_port, silent

FORMAT_SECONDS = 60.0
# The first compiler only: up in 1.6 s instead of 2.3, then half the CPU over 600,000 records, at no lower rate.
FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
HEAP = ("-Xms256m", "-Xmx512m")
METADATA, METADATA_VERSION, CORRELATION = 3, 1, 7

LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""

SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
num.partitions=1
auto.create.topics.enable=false
message.max.bytes=16777216
replica.fetch.max.bytes=16777216
log.retention.hours=168
log.cleaner.dedupe.buffer.size=4194304
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
"""


class Kafka(Server):
    name: ClassVar[str] = "kafka"
    stop_steps: ClassVar[StopSteps] = ((SIGTERM, 20.0), (SIGKILL, 10.0))
    death_signal: ClassVar[Signals] = SIGTERM

    def __init__(self, folder: Path, *, progress: Progress = silent) -> None:
        super().__init__(folder, progress=progress)
        self._controller_port = 0
        self._java = Path()
        self._class_path = ""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def prepare(self) -> None:
        self._java = find_java()
        self._class_path = ":".join(str(jar) for jar in ensure("kafka"))
        self._controller_port = free_port(self._controller_port)
        self._settings.write_text(
            SETTINGS.format(port=self.port, controller=self._controller_port, data=self.folder / "data")
        )
        self._logging.write_text(LOGGING)
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()

    def command(self) -> Command:
        return self._jvm("kafka.Kafka", str(self._settings), heap=HEAP, log=self.log, pid_file=self._pid_file)

    def answers(self) -> bool:
        return broker_answers(self.host, self.port)

    @property
    def _settings(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _logging(self) -> Path:
        return self.folder / "log4j2.properties"

    def _format(self) -> None:
        """A cluster of its own for every folder: a topic's id, and with it every offset, counts in one cluster only."""
        pid_file, log = self.folder / "format.pid.json", self.folder / "format.log"
        end_leftover(pid_file, self.stop_steps)
        arguments = ("format", "--ignore-formatted", "-t", _new_cluster_id(), "-c", str(self._settings))
        child = ChildProcess(self._jvm("kafka.tools.StorageTool", *arguments, heap=(), log=log, pid_file=pid_file))
        child.start()
        child.exited.wait(FORMAT_SECONDS)
        if child.stop(self.stop_steps) != 0:
            raise TransientError(
                f"formatting the broker's storage failed: {' | '.join(tail(log))}",
                code="STACK_FORMAT_FAILED",
                remedy=f"Read {log}.",
            )

    def _jvm(self, *program: str, heap: tuple[str, ...], log: Path, pid_file: Path) -> Command:
        logging = f"-Dlog4j2.configurationFile={self._logging}"
        return Command(
            argv=(str(self._java), *heap, *FAST_START, logging, "-cp", self._class_path, *program),
            log=log,
            pid_file=pid_file,
            folder=self.folder,
            death_signal=self.death_signal,
        )


def broker_answers(host: str, port: int) -> bool:
    """Whether a broker at this address takes work."""
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            return _listed_brokers(connection) > 0
    except OSError:
        return False


def _new_cluster_id() -> str:
    """None that begins with a dash: the tool would take it for an option. Kafka's own ids don't, for that reason."""
    while (made := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return made


def _listed_brokers(connection: socket.socket) -> int:
    """Asks for the metadata of no topic (Kafka protocol guide, Metadata v1): the answer starts with the brokers."""
    client = b"tidegate"
    body = struct.pack(">hhih", METADATA, METADATA_VERSION, CORRELATION, len(client)) + client + struct.pack(">i", 0)
    connection.sendall(struct.pack(">i", len(body)) + body)
    answer = connection.recv(12, socket.MSG_WAITALL)
    if len(answer) < 12:
        return 0
    _size, correlation, brokers = struct.unpack(">iii", answer)
    return int(brokers) if correlation == CORRELATION else 0
