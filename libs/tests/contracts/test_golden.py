"""Golden files: what was ever written stays readable, and what is written now is written so for ever."""

import pytest
from kit.contract_examples import FOLDER, Example, examples

from tidegate.contracts.frame import decode_frame
from tidegate.errors import DecodeError

EXAMPLES = examples()
CUT = [(name, example) for name, example in EXAMPLES.items()]
each_example = pytest.mark.parametrize(("name", "example"), CUT, ids=list(EXAMPLES))


@each_example
def test_the_code_writes_exactly_the_golden_bytes(name: str, example: Example) -> None:
    assert (FOLDER / name).read_bytes() == example.encoded


@each_example
def test_the_golden_bytes_are_read_as_the_value(name: str, example: Example) -> None:
    assert example.decode((FOLDER / name).read_bytes()) == example.value


@pytest.mark.parametrize("path", sorted(FOLDER.glob("frame-v*.bin")), ids=lambda path: path.stem)
def test_a_frame_of_any_version_so_far_is_read(path) -> None:
    """Also those that no code writes any more: a file may be added here, never taken away."""
    assert decode_frame(path.read_bytes()).header.epoch > 0


def test_every_golden_file_has_its_example() -> None:
    assert {path.name for path in FOLDER.iterdir()} >= set(EXAMPLES)


@each_example
def test_cut_at_any_length_it_is_refused(name: str, example: Example) -> None:
    for length in range(len(example.encoded)):
        with pytest.raises(DecodeError):
            example.decode(example.encoded[:length])


@each_example
def test_a_byte_too_many_is_refused(name: str, example: Example) -> None:
    with pytest.raises(DecodeError):
        example.decode(example.encoded + b"\x00")


@each_example
def test_one_flipped_bit_never_passes_unseen_where_there_is_a_checksum(name: str, example: Example) -> None:
    """Statuses and dead letters have none: there a flip is refused or gives another whole value, never a crash."""
    for bit in range(len(example.encoded) * 8):
        damaged = bytearray(example.encoded)
        damaged[bit // 8] ^= 1 << bit % 8
        if example.is_sealed:
            with pytest.raises(DecodeError):
                example.decode(bytes(damaged))
        else:
            _value_or_refusal(example, bytes(damaged))


def _value_or_refusal(example: Example, data: bytes) -> None:
    try:
        value = example.decode(data)
    except DecodeError:
        return
    assert type(value) is type(example.value)
