"""The contracts without a seal: versions, unknown members, closed sets."""

import json

import pytest
from kit.contract_examples import DEAD_LETTER, LANE, READER, SCHEMA_CHANGE
from kit.epoch_examples import FIRST_EPOCH, GAP, STEP

from tidegate.contracts.dead_letter import decode_dead_letter
from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.mark import decode_mark
from tidegate.contracts.status import STALE_SECONDS, LaneStatus, ReaderStatus
from tidegate.errors import DecodeError


def changed(encoded: bytes, **members: object) -> bytes:
    return json.dumps(json.loads(encoded) | members).encode()


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (2, "DEAD_LETTER_VERSION"),
        (10**30, "DEAD_LETTER_VERSION"),
        (0, "DEAD_LETTER_MALFORMED"),
        (True, "DEAD_LETTER_MALFORMED"),
        ("1", "DEAD_LETTER_MALFORMED"),
        (None, "DEAD_LETTER_MALFORMED"),
    ],
)
def test_a_dead_letter_of_an_unknown_version_is_refused(version: object, code: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_dead_letter(changed(DEAD_LETTER.encode(), version=version))
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("payload", "not base64!"),
        ("payload", "AAA"),
        ("payload", 5),
        ("schema", "AAAA"),
        ("schema", {}),
        ("schema", [1]),
        ("frame", {"topic_id": "t", "offset": "1", "epoch": 1, "seq": 1}),
        ("frame", {"topic_id": "t"}),
        ("frame", []),
        ("attempts", "1"),
        ("id", ""),
        ("id", "5D41402ABC4B2A76B9719D911017C592"),
        ("id", "5d41402abc4b2a76b9719d911017c59٢"),
        ("id", '" onclick="alert(1)'),
        ("id", "5d41402abc4b2a76b9719d911017c592\n"),
        ("position", "0/1"),
    ],
)
def test_a_dead_letter_with_a_wrong_member_is_refused(member: str, value: object) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_dead_letter(changed(DEAD_LETTER.encode(), **{member: value}))
    assert refused.value.code == "DEAD_LETTER_MALFORMED"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("mode", "resume"),
        ("tail", "0/0"),
        ("tail", ["0/0"]),
        ("tail", ["0/0", -1]),
        ("tail", ["0/0", 2**63]),
        ("tail", ["0/0", 1.0]),
        ("tail", ["0/0", True]),
        ("tail", ["0/G", 1]),
        ("start_lsn", 0),
        ("options", {"publications": "shop", "protocol": 1, "messages": True}),
        ("options", {"publications": ["shop"], "protocol": 1}),
        ("options", {"publications": ["shop"], "protocol": "1", "messages": True}),
        ("previous", {}),
        ("previous", False),
        ("topic_id", None),
        ("server_version", "18"),
        ("branch", {}),
        ("branch", 2),
        ("branch", STEP.to_json() | {"timeline": "2"}),
        ("branch", STEP.to_json() | {"left": True}),
        ("branch", STEP.to_json() | {"offset": -1}),
        ("branch", STEP.to_json() | {"fork": 5}),
        ("branch", STEP.to_json() | {"begins": "0/G"}),
        ("gap", {}),
        ("gap", "0/1"),
        ("gap", GAP.to_json() | {"lsn": 5}),
        ("gap", GAP.to_json() | {"offset": -1}),
        ("gap", GAP.to_json() | {"offset": True}),
        ("gap", GAP.to_json() | {"snapshot": "ab"}),
        ("gap", GAP.to_json() | {"reason": "dropped"}),
    ],
)
def test_an_epoch_with_a_wrong_member_is_refused(member: str, value: object) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_epoch(changed(FIRST_EPOCH.encode(), **{member: value}))
    assert refused.value.code == ("EPOCH_MODE_UNKNOWN" if value == "resume" else "EPOCH_MALFORMED")


@pytest.mark.parametrize(("member", "value"), [("kind", "party"), ("kind", []), ("details", []), ("details", None)])
def test_a_mark_with_a_wrong_member_is_refused(member: str, value: object) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_mark(changed(SCHEMA_CHANGE.encode(), **{member: value}))
    assert refused.value.code == "MARK_MALFORMED"


@pytest.mark.parametrize(
    ("member", "value"),
    [("state", "idle"), ("time", "now"), ("time", None), ("failure", "no"), ("failure", {"kind": "x"}), ("pid", 1.5)],
)
def test_a_status_with_a_wrong_member_is_refused(member: str, value: object) -> None:
    """Whoever reads one may count and compare with it, so a number is a number."""
    for status, decode in ((LANE, LaneStatus.decode), (READER, ReaderStatus.decode)):
        with pytest.raises(DecodeError) as refused:
            decode(changed(status.encode(), **{member: value}))
        assert refused.value.code == "STATUS_MALFORMED"


def test_a_lanes_status_is_no_readers() -> None:
    with pytest.raises(DecodeError):
        LaneStatus.decode(READER.encode())


def test_members_of_a_newer_writer_are_left_alone() -> None:
    """Services of two versions run side by side while they are updated."""
    assert LaneStatus.decode(changed(LANE.encode(), mood="good")) == LANE
    assert decode_epoch(changed(FIRST_EPOCH.encode(), mood="good")) == FIRST_EPOCH
    assert decode_mark(changed(SCHEMA_CHANGE.encode(), mood="good")) == SCHEMA_CHANGE
    assert decode_dead_letter(changed(DEAD_LETTER.encode(), mood="good")) == DEAD_LETTER


def test_a_refusal_holds_nothing_of_the_value() -> None:
    """A dead letter is row data, and errors are logged."""
    with pytest.raises(DecodeError) as refused:
        decode_dead_letter(changed(DEAD_LETTER.encode(), payload="s3cret!", version=1))
    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_status_is_stale_when_its_writer_was_silent_for_too_long() -> None:
    limit = int(STALE_SECONDS * 1e6)
    assert not LANE.is_stale(LANE.time + limit)
    assert LANE.is_stale(LANE.time + limit + 1)
