"""The stage is named by what was seen, and what was not seen is never passed."""

import pytest
from kit.admin import make_ack, make_config, make_lane, make_reader, make_slot
from kit.frames import RawLog, row

from tidegate.contracts.frame import decode_header
from tidegate.lsn import Lsn
from tidegate_admin.frames.search import Found
from tidegate_admin.pipelines.observation import Observation, Statuses, Unavailable
from tidegate_admin.pipelines.service import Levels, forecast_seconds, pipeline_view
from tidegate_admin.where_is.schemas import Stage
from tidegate_admin.where_is.service import Target, where_is

NOW = 1_800_000_000_000_000
GONE = Unavailable("SOURCE_UNAVAILABLE", "PostgreSQL did not answer")
TARGET = Target(Lsn(0x1010), is_commit=True)


def found() -> Found:
    log = RawLog()
    log.epoch()
    header = decode_header(log.transaction(row(1)))
    return Found(1, header)


def view(slot: object, acked: int, **reader: object):
    """The required lane `events` has acked up to `acked`, the best-effort one nothing."""
    generation = found().header.generation.id
    ack = make_ack(safe_lsn=acked)
    acks = {"events": type(ack)(**{name: getattr(ack, name) for name in ack.__slots__} | {"generation": generation})}
    statuses = Statuses(make_reader(generation=generation, **reader), {"events": make_lane()}, acks)
    return pipeline_view(make_config(), Observation(NOW, statuses, slot), Levels())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("slot", "acked", "is_found", "stage", "held_by"),
    [
        (make_slot(current_lsn=Lsn(0x1000), confirmed_flush_lsn=Lsn(0x900)), 0x900, False, Stage.UNWRITTEN, None),
        (make_slot(current_lsn=Lsn(0x2000), confirmed_flush_lsn=Lsn(0x900)), 0x900, False, Stage.WAL, None),
        (make_slot(current_lsn=Lsn(0x2000), confirmed_flush_lsn=Lsn(0x900)), 0x900, True, Stage.LANE, "events"),
        (make_slot(current_lsn=Lsn(0x2000), confirmed_flush_lsn=Lsn(0x1010)), 0x1010, True, Stage.LANE, "events"),
        (make_slot(current_lsn=Lsn(0x2000), confirmed_flush_lsn=Lsn(0x900)), 0x1040, True, Stage.SLOT, None),
        (make_slot(current_lsn=Lsn(0x2000), confirmed_flush_lsn=Lsn(0x1040)), 0x1040, True, Stage.CONFIRMED, None),
        (make_slot(current_lsn=Lsn(0x2000), confirmed_flush_lsn=Lsn(0x1040)), 0x1040, False, Stage.CONFIRMED, None),
        (GONE, 0x1040, True, Stage.UNKNOWN, None),
        (GONE, 0x900, False, Stage.UNKNOWN, None),
        (GONE, 0x900, True, Stage.LANE, "events"),
    ],
)
def test_the_stage_is_the_first_that_has_not_let_it_pass(slot, acked: int, is_found: bool, stage, held_by) -> None:
    """A commit record's own start is not its end: an ack or slot exactly there has not passed it."""
    place = where_is(view(slot, acked), TARGET, found() if is_found else None)
    assert (place.stage, place.held_by) == (stage, held_by)


def test_an_ack_of_another_generation_passes_nothing() -> None:
    statuses = Statuses(make_reader(), {"events": make_lane()}, {"events": make_ack(safe_lsn=0x9000)})
    slot = make_slot(current_lsn=Lsn(0x9999), confirmed_flush_lsn=Lsn(0x900))
    seen = pipeline_view(make_config(), Observation(NOW, statuses, slot), Levels())
    assert where_is(seen, TARGET, found()).stage is Stage.LANE


def test_the_slots_end_is_forecast_from_what_the_source_writes() -> None:
    """1000 bytes in ten seconds, and 5000 that may still be written."""
    levels = Levels()
    for second, lsn in ((0, 1000), (10, 2000)):
        slot = make_slot(current_lsn=Lsn(lsn), safe_wal_bytes=5000)
        reader = make_reader(server_lsn=lsn, time=NOW + second * 1_000_000)
        seen = Observation(NOW + second * 1_000_000, Statuses(reader), slot)
        last = pipeline_view(make_config(), seen, levels)
    assert last.wal_rate == 100
    assert forecast_seconds(last) == 50


def test_without_a_limit_or_without_writing_there_is_no_forecast() -> None:
    assert forecast_seconds(view(make_slot(), 0x900)) is None
    assert forecast_seconds(view(make_slot(safe_wal_bytes=5000), 0x900)) is None
