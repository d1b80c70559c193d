"""A sink behind transforms that keeps the events it is given, and changes of one table to give it."""

from typing import Any

from kit.frames import GENERATION, ORDERS, RawLog
from kit.memory_sink import MemorySink

from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import FrameEncoder
from tidegate.config.sinks import SinkConfig, SinkType
from tidegate.config.transforms import Transform
from tidegate.contracts.frame import Frame, decode_frame
from tidegate.pgoutput.messages import UNCHANGED, Delete, Insert, Message, OldKind, Update
from tidegate.position import Position

CANARY = b"canary-7f3a"


class Events(MemorySink):
    """Keeps the events of the frames that it is given."""

    def __init__(self, config: SinkConfig, **options: Any) -> None:
        super().__init__(config=config, **options)
        self.frames: list[Frame] = []
        self._encoder = FrameEncoder(
            EventSource("shop", "shop", 1), lambda *names: "t" if config.takes(*names) else None
        )

    def write(self, frame: Frame, after: Position) -> Any:
        self.frames.append(frame)
        return super().write(frame, after)

    @property
    def events(self) -> list[tuple[bytes | None, bytes]]:
        return [each for frame in self.frames for events in self._encoder.encode(frame).topics for each in events]


def lane(*transforms: tuple[str, dict[str, Any]]) -> SinkConfig:
    made = tuple(Transform(type=verb, options=options) for verb, options in transforms)
    return SinkConfig(name="events", type=SinkType.KAFKA_TOPICS, transforms=made)


def frame_of(*changes: Message) -> Frame:
    log = RawLog(GENERATION)
    log.epoch()
    return decode_frame(log.transaction(*changes))


REDACT = ("mask", {"columns": ["note"], "how": "redact"})
RENAME = ("rename_fields", {"fields": {"note": "remark", "id": "number"}})
CHANGES = (
    Insert(ORDERS.relation_id, (b"1", CANARY)),
    Update(ORDERS.relation_id, OldKind.FULL, (b"1", CANARY), (b"2", UNCHANGED)),
    Update(ORDERS.relation_id, None, None, (b"2", UNCHANGED)),
    Update(ORDERS.relation_id, None, None, (b"2", None)),
    Delete(ORDERS.relation_id, OldKind.FULL, (b"2", CANARY)),
)
