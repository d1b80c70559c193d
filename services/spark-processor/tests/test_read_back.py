"""A stretch of the log read once more: it is Kafka's silence that ends it, not the time that its reader takes."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from tidegate.errors import TransientError
from tidegate_processor import read_back as module
from tidegate_processor.read_back import read_back
from tidegate_processor.speaking import speaking


class Message:
    def __init__(self, offset: int, error: object = None) -> None:
        self._offset, self._error = offset, error

    def error(self) -> object:
        return self._error

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return b"frame"


class Consumer:
    """Gives what it has, then what `last` says for ever."""

    def __init__(self, clock: list[float], records: int, last: Message | None = None) -> None:
        self._clock, self._messages, self._last = clock, iter([Message(at) for at in range(records)]), last

    def assign(self, _: object) -> None:
        return

    def poll(self, seconds: float) -> Message | None:
        found = next(self._messages, None)
        if found is None:
            self._clock[0] += seconds
        return found or self._last

    def close(self) -> None:
        return


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(module, "look_at", lambda *_: SimpleNamespace(beginning=0))
    monkeypatch.setattr(module, "librdkafka_settings", lambda _: {})
    return now


def stretch(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> Iterator[tuple[int, bytes | None]]:
    monkeypatch.setattr(module, "client", lambda *_, **__: consumer)
    config = SimpleNamespace(raw_topic=SimpleNamespace(name="raw"), kafka=None)
    return read_back(config, 0, 20)  # type: ignore[arg-type]


def test_a_redis_that_is_deaf_while_the_log_is_read_again_is_no_silence_of_kafka(monkeypatch, clock) -> None:
    def speaks_in_vain() -> None:
        clock[0] += 10.1

    records = []
    for offset, _ in speaking(stretch(monkeypatch, Consumer(clock, 20)), speaks_in_vain, clock=lambda: clock[0]):
        clock[0] += 0.3
        records.append(offset)

    assert records == list(range(20))


@pytest.mark.parametrize("last", [None, Message(5, SimpleNamespace(retriable=lambda: True))])
def test_a_kafka_that_gives_no_more_is_not_waited_for_for_ever(monkeypatch, clock, last: Message | None) -> None:
    records = stretch(monkeypatch, Consumer(clock, 5, last))
    with pytest.raises(TransientError) as refused:
        list(records)

    assert refused.value.code == "RAW_TOPIC_UNREADABLE"
    assert 10 <= clock[0] < 12
