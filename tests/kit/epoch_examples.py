"""Where a run of the reader begins, as the epoch frame and the lineage say it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kit.frames import GENERATION

from tidegate.contracts.branch import Branch
from tidegate.contracts.epoch import EpochMode, EpochRecord, PreviousEpoch, StreamOptions
from tidegate.contracts.frame import NO_OFFSET, FrameHeader, FrameKind, SchemaEntry
from tidegate.contracts.gap import Gap, GapReason
from tidegate.contracts.lineage import Lineage
from tidegate.lsn import Lsn
from tidegate.position import BEGINNING, Position

NONCE = bytes(range(16, 32))
TOPIC_ID = "6f1ed002-ab59-4f5c-9e5f-3b1f1b6f0a4e"
COMMIT_LSN, END_LSN = Lsn(0x16B3748), Lsn(0x16B3778)
OPTIONS = StreamOptions(("tidegate_shop", "odd, name"), 4, messages=True)
FIRST_EPOCH = EpochRecord(
    EpochMode.CONTINUE, Lsn(0x16B3700), BEGINNING, OPTIONS, None, TOPIC_ID, 180_004, "tidegate-reader 0.1.0"
)
SECOND_EPOCH = replace(FIRST_EPOCH, previous=PreviousEpoch(1, 0, 99, 99))
REFEED_EPOCH = replace(SECOND_EPOCH, mode=EpochMode.REFEED, start_lsn=COMMIT_LSN, tail=Position(COMMIT_LSN, 2))
STEP = Branch(3, Lsn(0x16B3800), 1, END_LSN, 100)
GAP = Gap(COMMIT_LSN, 40, NONCE.hex(), GapReason.SLOT_MISSING)
LINEAGE = Lineage(GENERATION, 2, TOPIC_ID, COMMIT_LSN, ("orders", "search"), ("search",), OPTIONS)
MOVED = replace(LINEAGE, branch=STEP)
SINCE = replace(LINEAGE, options_since=COMMIT_LSN)


def epoch_examples(
    header: Callable[..., FrameHeader],
) -> dict[str, tuple[FrameHeader, tuple[SchemaEntry, ...], bytes, int]]:
    """As `contract_examples.frames`."""
    place: dict[str, Any] = {"epoch_offset": NO_OFFSET, "seq": 0, "first": BEGINNING, "last": BEGINNING}
    records = {
        "epoch-refeed": REFEED_EPOCH,
        "epoch-failover": replace(SECOND_EPOCH, branch=STEP),
        "epoch-gap": replace(REFEED_EPOCH, gap=GAP),
        "epoch-options": replace(SECOND_EPOCH, options_since=COMMIT_LSN),
    }
    first = header(FrameKind.EPOCH, **place, epoch=1), (), FIRST_EPOCH.encode(), 0
    later = {name: (header(FrameKind.EPOCH, **place), (), each.encode(), 0) for name, each in records.items()}
    return {"epoch-first": first, **later}
