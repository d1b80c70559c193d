"""A sealed value is believed only if it is whole and about what was asked for."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import contract_values as values
from kit.contract_examples import ACK, CONTROL, CURSOR

from tidegate.contracts.ack import Ack, decode_ack
from tidegate.contracts.control import decode_control
from tidegate.contracts.cursor import decode_cursor
from tidegate.contracts.fixed_width import decode_position
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import DecodeError

MAY_LACK = {"config_epoch"}
"""Of an ack that an older version wrote."""


def refusal(value: bytes, *, sink: str = ACK.sink, generation: str = ACK.generation) -> str:
    with pytest.raises(DecodeError) as refused:
        decode_ack(value, sink=sink, generation=generation)
    return refused.value.code


def test_the_ack_of_another_sink_is_refused() -> None:
    """Replies of one connection can be mixed up: the field that was asked for is not proof enough."""
    assert refusal(ACK.encode(), sink="lake") == "ACK_FOREIGN"


def test_the_ack_of_another_generation_is_refused() -> None:
    assert refusal(replace(ACK, generation="0" * 32).encode()) == "ACK_FOREIGN"


@given(values.ACK, values.ACK)
def test_an_ack_is_believed_for_its_own_sink_and_generation_only(ack: Ack, other: Ack) -> None:
    whose, theirs = (ack.sink, ack.generation), (other.sink, other.generation)
    if whose == theirs:
        assert decode_ack(ack.encode(), sink=theirs[0], generation=theirs[1]) == ack
    else:
        assert refusal(ack.encode(), sink=theirs[0], generation=theirs[1]) == "ACK_FOREIGN"


@pytest.mark.parametrize("member", [name for name in json.loads(ACK.encode()) if name != "checksum"])
def test_a_changed_member_breaks_the_seal(member: str) -> None:
    document = json.loads(ACK.encode())
    document[member] = 1 if isinstance(document[member], int) else document[member] + "0"
    assert refusal(json.dumps(document).encode()) == "SEAL_BROKEN"


@pytest.mark.parametrize("member", [name for name in unseal(ACK.encode()) if name not in MAY_LACK])
def test_a_member_that_lacks_is_refused_though_the_seal_fits(member: str) -> None:
    document = unseal(ACK.encode())
    del document[member]
    assert refusal(seal(document)) in ("ACK_MALFORMED", "ACK_FOREIGN")


def test_a_value_without_a_seal_is_refused() -> None:
    assert refusal(json.dumps(unseal(ACK.encode())).encode()) == "SEAL_MALFORMED"


def test_members_in_another_order_are_the_same_value() -> None:
    document = json.loads(ACK.encode())
    turned = json.dumps(dict(reversed(document.items())), indent=1).encode()
    assert decode_ack(turned, sink=ACK.sink, generation=ACK.generation) == ACK


def test_a_member_of_a_newer_writer_is_left_alone_but_sealed() -> None:
    document: dict[str, object] = unseal(ACK.encode()) | {"since": 17}
    assert decode_ack(seal(document), sink=ACK.sink, generation=ACK.generation) == ACK


@pytest.mark.parametrize(
    "position",
    [
        "00000000016B3748:0000000000000002",
        "0x000000016b3748:0000000000000002",
        "16b3748:2",
        " 0000000016b3748:0000000000000002",
        "00000000016b3748:0000000000000002\n",
        "00000000016b3748:+000000000000002",
        "00000000016b3748:000000000000_002",
        "٠٠٠٠٠٠٠٠٠١6b3748:0000000000000002",
        "00000000016b3748:0000000000000002:0000000000000000",
        "000000000016b3748:0000000000000002",
        "",
        None,
        7,
    ],
)
def test_a_position_is_written_in_one_way_only(position: object) -> None:
    """Anything else would compare differently as text, and the script in Redis compares text."""
    with pytest.raises(ValueError, match="not a position"):
        decode_position(position)
    assert refusal(seal(unseal(ACK.encode()) | {"position": position})) == "ACK_MALFORMED"


@pytest.mark.parametrize("safe_lsn", ["16b3778", "00000000016B3778", "0/16B3778", 23803768, None])
def test_an_lsn_is_written_in_one_way_only(safe_lsn: object) -> None:
    assert refusal(seal(unseal(ACK.encode()) | {"safe_lsn": safe_lsn})) == "ACK_MALFORMED"


@pytest.mark.parametrize(("member", "value"), [("epoch", "2"), ("epoch", True), ("offset", 1.0), ("time", None)])
def test_a_number_is_no_text_and_no_truth_value(member: str, value: object) -> None:
    assert refusal(seal(unseal(ACK.encode()) | {member: value})) == "ACK_MALFORMED"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("epoch_nonce", "xyz"),
        ("seq", "7"),
        ("next_offset", None),
        ("position", "0:0"),
        ("refused", {}),
        ("refused", ["0f1e2d3c4b5a6978"]),
        ("refused", [{"shape": "0f1e2d3c4b5a6978", "kinds": []}]),
        ("refused", [{"shape": "0f1e2d3c4b5a6978", "accepted": "x", "kinds": []}]),
        ("refused", [{"shape": "0f1e2d3c4b5a6978", "accepted": "8796a5b4c3d2e1f0", "kinds": [1]}]),
        ("refused", [{"shape": "0f1e2d3c4b5a6978", "accepted": "8796a5b4c3d2e1f0", "kinds": [], "since": "0:0"}]),
        ("refused", [{"shape": "0f1e2d3c4b5a6978", "accepted": "8796a5b4c3d2e1f0", "kinds": [], "until": 7}]),
    ],
)
def test_a_cursor_with_a_wrong_member_is_refused(member: str, value: object) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_cursor(seal(unseal(CURSOR.encode().encode()) | {member: value}).decode())
    assert refused.value.code == "CURSOR_MALFORMED"


def test_metadata_that_was_no_text_is_no_cursor() -> None:
    with pytest.raises(DecodeError):
        decode_cursor("\ud800")


@pytest.mark.parametrize(("member", "value"), [("command", "halt"), ("incarnation", "1"), ("command", None)])
def test_a_control_value_with_a_wrong_member_is_refused(member: str, value: object) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_control(seal(unseal(CONTROL.encode()) | {member: value}))
    assert refused.value.code == "CONTROL_MALFORMED"


@given(values.ACK, st.data())
def test_one_changed_byte_breaks_an_ack(ack: Ack, data: st.DataObject) -> None:
    """Also where the seal is held against the bytes as they came, without writing the value again. A letter of an
    escape may be another one and say the same: then it is the same ack."""
    written = ack.encode()
    at = data.draw(st.integers(0, len(written) - 1))
    changed = written[:at] + bytes((written[at] ^ data.draw(st.integers(1, 255)),)) + written[at + 1 :]
    if says_the_same(changed, written):
        assert decode_ack(changed, sink=ack.sink, generation=ack.generation) == ack
    else:
        with pytest.raises(DecodeError):
            decode_ack(changed, sink=ack.sink, generation=ack.generation)


def says_the_same(one: bytes, other: bytes) -> bool:
    with suppress(ValueError):
        return json.loads(one) == json.loads(other)
    return False


@given(st.dictionaries(st.text(min_size=1, max_size=12), st.integers() | st.text(), max_size=4))
def test_members_stand_in_their_order_whatever_stands_before_the_checksum(members: dict[str, object]) -> None:
    """One that begins a value is written by a shorter way, and the bytes are the same."""
    members.pop("checksum", None)
    value = seal(members)
    document = json.loads(value)

    assert json.dumps(document, separators=(",", ":"), sort_keys=True).encode() == value
    assert members == unseal(value)
