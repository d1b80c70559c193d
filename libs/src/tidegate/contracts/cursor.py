"""The cursor: where a lane reads on. It travels with the sink's own commit and may go back (a rewind).

For a Kafka sink it is the metadata of the committed offset in the lane's consumer group. A missing cursor is never
guessed, and an offset counts only with the id of its topic.
"""

from dataclasses import dataclass

from tidegate.contracts.document import build
from tidegate.contracts.fixed_width import decode_fixed_lsn, decode_position, encode_fixed_lsn, encode_position
from tidegate.contracts.missed import NONE, Missed, missed_of
from tidegate.contracts.refused_shape import RefusedShape, members_of, refused_shapes
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError
from tidegate.lsn import Lsn
from tidegate.position import Position


@dataclass(frozen=True, slots=True)
class Cursor:
    generation: str
    topic_id: str
    epoch: int
    epoch_nonce: str
    seq: int
    next_offset: int
    position: Position
    safe_lsn: Lsn
    config_epoch: str
    incarnation: int
    rewound_from: Position | None = None
    """Where the lane was when it was rewound, until it has passed that again: what it needs is what lies behind its own
    position then, whatever it has acked."""
    refused: tuple[RefusedShape, ...] = ()
    rewound_epoch: int = 0
    """The epoch the lane was in when it was rewound into an older one: until it has come to that again it acks nothing,
    for its claims would be an older epoch's."""
    writers: int = 1
    """How many writers the lane had: this is the cursor of one of them, and about its own changes."""
    missed: Missed = NONE
    """Of `topic_id`."""

    @property
    def newest_epoch(self) -> int:
        """That the lane has claimed anything in."""
        return max(self.epoch, self.rewound_epoch)

    def encode(self) -> str:
        at_times: dict[str, object] = {"rewound_epoch": self.rewound_epoch} if self.rewound_epoch else {}
        if self.rewound_from is not None:
            at_times["rewound_from"] = encode_position(self.rewound_from)
        if self.writers > 1:
            at_times["writers"] = self.writers
        return seal(
            {
                **at_times,
                **members_of(self.refused),
                **self.missed.members,
                "generation": self.generation,
                "topic_id": self.topic_id,
                "epoch": self.epoch,
                "epoch_nonce": self.epoch_nonce,
                "seq": self.seq,
                "next_offset": self.next_offset,
                _position_member(self.writers): encode_position(self.position),
                "safe_lsn": encode_fixed_lsn(self.safe_lsn),
                "config_epoch": self.config_epoch,
                "incarnation": self.incarnation,
            }
        ).decode()


def _position_member(writers: object) -> str:
    """What a writer has of its own changes says nothing of the others': whoever knows of one writer only must not find
    it, and refuses the cursor."""
    return "position" if writers == 1 else "share_position"


def decode_cursor(metadata: str) -> Cursor:
    document = unseal(metadata.encode(errors="surrogatepass"))
    try:
        rewound, writers = document.get("rewound_from"), document.get("writers", 1)
        cursor = build(
            Cursor,
            document
            | {
                "position": decode_position(document[_position_member(writers)]),
                "safe_lsn": decode_fixed_lsn(document["safe_lsn"]),
                "rewound_from": None if rewound is None else decode_position(rewound),
                "refused": refused_shapes(document),
                "missed": missed_of(document),
                "rewound_epoch": document.get("rewound_epoch", 0),
                "writers": writers,
            },
        )
        bytes.fromhex(cursor.epoch_nonce)
        if cursor.writers < 1:
            raise ValueError("a lane without writers")
        return cursor
    except (KeyError, ValueError):
        raise DecodeError("this cursor lacks what a cursor must say", code="CURSOR_MALFORMED") from None
