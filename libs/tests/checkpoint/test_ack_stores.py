"""One behaviour, two stores: what is written here holds for Redis as for memory."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import pytest
import redis as redis_client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.contract_examples import ACK

from tidegate.checkpoint.memory_store import MemoryAckStore
from tidegate.checkpoint.redis_store import read_acks, write_ack
from tidegate.checkpoint.store import AckOutcome, compare
from tidegate.contracts.ack import Ack
from tidegate.contracts.names import ack_channel, ack_key
from tidegate.contracts.sealed import seal, unseal
from tidegate.errors import TransientError
from tidegate.lsn import MAX_LSN, Lsn
from tidegate.position import MAX_ORDINAL, Position

# Neighbours that a double can't tell apart, and the ends of the range.
LSNS = [0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, MAX_LSN - 1, MAX_LSN]
ORDINALS = [0, 1, 2**53, 2**53 + 1, MAX_ORDINAL]

LOWEST = "0" * 16 + ":" + "0" * 16

ACKS = st.builds(
    lambda lsn, ordinal, safe, epoch, offset: replace(
        ACK, position=Position(Lsn(lsn), ordinal), safe_lsn=Lsn(safe), epoch=epoch, offset=offset
    ),
    st.sampled_from(LSNS),
    st.sampled_from(ORDINALS),
    st.sampled_from(LSNS),
    st.integers(1, 3),
    st.integers(0, 2**63 - 1),
)


class Store(Protocol):
    def write(self, ack: Ack) -> AckOutcome: ...

    def read(self, generation: str, sink: str) -> Ack | None: ...


class RedisAckStore:
    def __init__(self, url: str, pipeline: str) -> None:
        self.client, self.url, self.pipeline = redis_client.Redis.from_url(url), url, pipeline

    def write(self, ack: Ack) -> AckOutcome:
        return write_ack(self.client, self.pipeline, ack)

    def read(self, generation: str, sink: str) -> Ack | None:
        return asyncio.run(self._read(generation)).get(sink)

    async def _read(self, generation: str) -> dict[str, Ack]:
        async with redis_client.asyncio.Redis.from_url(self.url) as client:
            return await read_acks(client, self.pipeline, generation)

    def plant(self, value: bytes) -> None:
        self.client.hset(ack_key(self.pipeline, ACK.generation), ACK.sink, value)


def lower(ack: Ack) -> Iterator[Ack]:
    lsn, ordinal = ack.position
    yield replace(ack, position=Position(Lsn(lsn - 1), MAX_ORDINAL))
    yield replace(ack, position=Position(lsn, ordinal - 1))
    yield replace(ack, safe_lsn=Lsn(ack.safe_lsn - 1))
    yield replace(ack, position=Position(lsn, ordinal - 1), safe_lsn=Lsn(ack.safe_lsn + 1))
    yield replace(ack, position=Position(lsn, ordinal + 1), safe_lsn=Lsn(ack.safe_lsn - 1))


def unsealed(**members: object) -> bytes:
    return json.dumps({"sink": ACK.sink, "generation": ACK.generation} | members).encode()


class StoreBehaviour:
    def test_the_first_ack_is_taken(self, store: Store) -> None:
        assert store.write(ACK) is AckOutcome.ACCEPTED
        assert store.read(ACK.generation, ACK.sink) == ACK

    def test_a_missing_ack_is_missing(self, store: Store) -> None:
        assert store.read(ACK.generation, ACK.sink) is None

    @pytest.mark.parametrize("which", range(5))
    def test_an_ack_that_is_lower_in_anything_is_refused(self, store: Store, which: int) -> None:
        store.write(ACK)
        assert store.write(list(lower(ACK))[which]) is AckOutcome.LOWER
        assert store.read(ACK.generation, ACK.sink) == ACK

    def test_the_same_place_again_is_taken_and_is_fresher(self, store: Store) -> None:
        again = replace(ACK, time=ACK.time + 1, epoch=ACK.epoch + 1)
        store.write(ACK)
        assert store.write(again) is AckOutcome.ACCEPTED
        assert store.read(ACK.generation, ACK.sink) == again

    def test_an_older_epoch_at_the_same_place_is_late(self, store: Store) -> None:
        store.write(ACK)
        assert store.write(replace(ACK, epoch=1)) is AckOutcome.LOWER

    def test_an_older_epoch_that_claims_more_is_foreign(self, store: Store) -> None:
        store.write(ACK)
        assert store.write(replace(ACK, epoch=1, safe_lsn=Lsn(ACK.safe_lsn + 1))) is AckOutcome.FOREIGN
        assert store.read(ACK.generation, ACK.sink) == ACK

    def test_sinks_and_generations_do_not_meet(self, store: Store) -> None:
        lowest = Position(Lsn(0), 0)
        store.write(ACK)
        assert store.write(replace(ACK, sink="lake", position=lowest)) is AckOutcome.ACCEPTED
        assert store.write(replace(ACK, generation="f" * 32, position=lowest)) is AckOutcome.ACCEPTED
        assert store.read(ACK.generation, ACK.sink) == ACK


def check_sequence(store: Store, acks: list[Ack]) -> None:
    """Any sequence goes as the rule says, so an ack never falls within a generation, whoever writes in what order."""
    generation = f"{hash(tuple(acks)) & 2**64 - 1:032x}"
    stored = store.read(generation, ACK.sink)
    for ack in (replace(each, generation=generation) for each in acks):
        expected = compare(stored, ack)
        assert store.write(ack) is expected
        if expected is AckOutcome.ACCEPTED:
            assert stored is None or (ack.position >= stored.position and ack.safe_lsn >= stored.safe_lsn)
            stored = ack
    assert store.read(generation, ACK.sink) == stored


any_sequence = given(acks=st.lists(ACKS, min_size=1, max_size=12))
of_one_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class TestMemory(StoreBehaviour):
    @pytest.fixture
    def store(self) -> MemoryAckStore:
        return MemoryAckStore()

    @any_sequence
    @of_one_store
    def test_any_sequence_goes_as_the_rule_says(self, store: Store, acks: list[Ack]) -> None:
        check_sequence(store, acks)


class TestRedis(StoreBehaviour):
    @pytest.fixture
    def store(self, redis, prefix: str) -> RedisAckStore:
        return RedisAckStore(redis.url, prefix)

    @any_sequence
    @of_one_store
    def test_any_sequence_goes_as_the_rule_says(self, store: Store, acks: list[Ack]) -> None:
        check_sequence(store, acks)

    def test_two_writers_at_once_leave_the_highest(self, store: RedisAckStore) -> None:
        """An old stage that is not dead yet, and its successor."""
        rounds = [replace(ACK, position=Position(Lsn(2**53 + step), 0)) for step in range(200)]
        outcomes: list[AckOutcome] = []

        def write(acks: list[Ack]) -> None:
            outcomes.extend(RedisAckStore(store.url, store.pipeline).write(ack) for ack in acks)

        writers = [threading.Thread(target=write, args=(acks,)) for acks in (rounds, rounds[::-1])]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert store.read(ACK.generation, ACK.sink) == rounds[-1]
        assert len(outcomes) == 400
        assert outcomes.count(AckOutcome.LOWER) > 0
        assert AckOutcome.FOREIGN not in outcomes

    @pytest.mark.parametrize(
        "broken",
        [
            b"",
            b"\xff\x00",
            b"{",
            b"[]",
            b"7",
            b"null",
            b"[" * 2000,
            unsealed(),
            unsealed(position=9, safe_lsn="0" * 16, epoch=1),
            unsealed(position=LOWEST, safe_lsn=[], epoch=1),
            unsealed(position=LOWEST, safe_lsn="0" * 16, epoch="x"),
            json.dumps(unseal(ACK.encode()) | {"position": "z", "checksum": "00000000"}).encode(),
            json.dumps(unseal(ACK.encode()) | {"epoch": 99, "checksum": "00000000"}).encode(),
            seal(unseal(ACK.encode()) | {"position": "z"}),
            replace(ACK, sink="lake", position=Position(MAX_LSN, 0)).encode(),
            replace(ACK, generation="f" * 32, position=Position(MAX_LSN, 0)).encode(),
        ],
    )
    def test_a_value_not_to_be_believed_counts_as_missing(self, store: RedisAckStore, broken: bytes) -> None:
        """Else one broken value would refuse every ack, and the gate would stay shut for ever."""
        store.plant(broken)
        assert store.read(ACK.generation, ACK.sink) is None
        assert store.write(ACK) is AckOutcome.ACCEPTED
        assert store.read(ACK.generation, ACK.sink) == ACK

    def test_a_broken_field_hides_no_other(self, store: RedisAckStore) -> None:
        store.plant(b"broken")
        store.write(replace(ACK, sink="lake"))
        store.client.hset(ack_key(store.pipeline, ACK.generation), b"\xff\xfe", b"x")
        assert store.read(ACK.generation, "lake") is not None

    def test_an_ack_that_grew_is_published_and_a_refused_one_is_not(self, store: RedisAckStore) -> None:
        with store.client.pubsub(ignore_subscribe_messages=True) as channel:
            channel.subscribe(ack_channel(store.pipeline, ACK.generation))
            channel.get_message(timeout=5)
            store.write(ACK)
            store.write(next(lower(ACK)))
            store.write(replace(ACK, sink="lake"))
            heard = [channel.get_message(ignore_subscribe_messages=True, timeout=5) for _ in range(2)]
        assert [message and message["data"] for message in heard] == [b"orders", b"lake"]

    def test_numbers_beyond_53_bits_are_kept_whole(self, store: RedisAckStore) -> None:
        wide = replace(ACK, position=Position(MAX_LSN, MAX_ORDINAL), safe_lsn=MAX_LSN, offset=2**63 - 1)
        store.write(wide)
        assert store.read(ACK.generation, ACK.sink) == wide

    def test_redis_lost_means_acks_come_late(self, store: RedisAckStore) -> None:
        """After a flush the next ack is the first: whatever it says is taken."""
        store.write(ACK)
        store.client.delete(ack_key(store.pipeline, ACK.generation))
        assert store.write(next(lower(ACK))) is AckOutcome.ACCEPTED

    def test_a_key_of_another_kind_is_a_store_that_does_not_take_acks(self, store: RedisAckStore) -> None:
        store.client.set(ack_key(store.pipeline, ACK.generation), "taken")
        with pytest.raises(TransientError) as refused:
            store.write(ACK)
        assert refused.value.code == "ACK_STORE_UNAVAILABLE"


def test_a_redis_that_is_not_there_is_transient() -> None:
    nowhere = redis_client.Redis.from_url("redis://127.0.0.1:1", socket_timeout=0.2, retry=None)
    with pytest.raises(TransientError) as refused:
        write_ack(nowhere, "shop", ACK)
    assert refused.value.code == "ACK_STORE_UNAVAILABLE"
    assert "127.0.0.1" not in str(refused.value)
