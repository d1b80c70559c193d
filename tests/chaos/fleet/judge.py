"""The verdict at a barrier: ledger, witness, deliveries, mirror and samples must tell the same story.

| invariant | compared |
| --- | --- |
| I1 | every ok transaction of the ledger, every one of the witness, is delivered or a dead letter, with all values |
| I2 | nothing of a failed transaction, of an aborted savepoint, or unknown to the witness is delivered |
| I3 | at each sample: confirmed ≤ lowest ack, and what is confirmed is committed in the topics |
| I4 | positions rise within each partition, a key stays in one; ordinals run from 0; commits in the witness's order |
| | of several writers they rise for each key, and a TRUNCATE of its partition is behind all and before all else |
| I5 | no id twice; the id is the one that the reference page computes |
| I6 | tables rebuilt from the events equal the source's; the sum of all accounts is the same after each transaction |
| I12 | neither an ack nor the confirmed position goes back |

Invariant: a violation is told by names, counts, positions and xids, never by a value.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from chaos.fleet import tables
from chaos.fleet.deliveries import Arrived
from chaos.fleet.ids import expected_id
from chaos.fleet.ledger import Entry, Outcome
from chaos.fleet.mirror import Mirror
from chaos.fleet.rows import Read, missed
from chaos.fleet.sampler import Sample
from chaos.fleet.witness import Seen, Transaction

from tidegate.contracts.dead_letter import DeadLetter

_MARKER_SECONDS = 1.0
"""A transaction is committed when its coordinator says so; the brokers mark the partitions behind that."""
_MOST_TOLD = 5


@dataclass(frozen=True, slots=True)
class Violation:
    invariant: str
    what: str
    is_repetition: bool = False
    """An event, or a stretch of them, came again; where that is allowed, it is no violation."""

    def __str__(self) -> str:
        return f"{self.invariant}: {self.what}"


@dataclass(slots=True)
class Evidence:
    entries: Sequence[Entry]
    witnessed: Sequence[Transaction]
    arrived: Sequence[Arrived]
    samples: Sequence[Sample]
    dead: Sequence[DeadLetter] = ()
    reads: Sequence[Read] = ()
    acks_may_vanish: bool = False
    """A trial that empties Redis: a later sample may not show what an earlier confirmation stood on."""


@dataclass(slots=True)
class Judge:
    """Keeps between two barriers what a later event may contradict."""

    mirror: Mirror
    required: Sequence[str]
    has_one_writer: bool = True
    duplicates: int = 0
    _highest: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    _between: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """The newest event that is in order with those of every key: any, where there is one writer."""
    _of_key: dict[tuple[str, bytes | None], tuple[int, int]] = field(default_factory=dict)
    _partition_of: dict[tuple[str, bytes], int] = field(default_factory=dict)
    _ids: set[str] = field(default_factory=set)
    _confirmed: tuple[str, int] = ("", 0)
    _acked: dict[str, int] = field(default_factory=dict)

    def violations(self, evidence: Evidence, dsn: str) -> list[Violation]:
        once = [each for each in evidence.arrived if each.event["id"] not in self._ids]
        once = list({each.event["id"]: each for each in reversed(once)}.values())[::-1]
        changes = [each for each in once if not each.is_row]
        dead = {(letter.xid or 0, letter.position.ordinal) for letter in evidence.dead}
        tokens = self._exempted(evidence.witnessed, dead)
        rules = (
            self._one_by_one(evidence.arrived),
            _transactions(evidence.witnessed, changes, dead),
            _outcomes(evidence.entries, changes, tokens),
            self.sampled(evidence),
            _not_durable(evidence.samples, changes),
            (Violation("I1", what) for what in missed(evidence.reads, self.mirror, once)),
            self._mirrored(once, dsn),
        )
        return [violation for rule in rules for violation in _first(rule)]

    def _exempted(self, witnessed: Iterable[Transaction], dead: Set[tuple[int, int]]) -> frozenset[str]:
        """Rows that became dead letters: the mirror cannot have them. Their tokens."""
        tokens = set()
        for transaction in witnessed:
            for ordinal, change in enumerate(transaction.changes):
                if (transaction.xid, ordinal) in dead:
                    self.mirror.exempt(change.table, change.new)
                    tokens.add(change.new.get("token") or "")
        return frozenset(tokens)

    def _one_by_one(self, arrived: Iterable[Arrived]) -> Iterator[Violation]:
        for each in arrived:
            last = self._last(each)
            if each.position < last or (each.position == last and not each.is_row):
                back = each.event["position"]["commit_lsn"]
                yield Violation("I4", f"{each.table}: position goes back to {back}", is_repetition=True)
            if each.key is not None and self._partition_of.setdefault((each.topic, each.key), each.partition) != (
                each.partition
            ):
                yield Violation("I4", f"{each.table}: a key is in two partitions")
            identity = each.event["id"]
            if identity in self._ids:
                self.duplicates += 1
                again = each.event["position"]["commit_lsn"]
                yield Violation("I5", f"{each.table}: the event at {again} came twice", is_repetition=True)
            self._ids.add(identity)
            if each.kind != "TRUNCATE" and not each.is_row and identity != expected_id(each.event):
                yield Violation("I5", f"{each.table}: an id is not the one that its change has")

    def _last(self, arrived: Arrived) -> tuple[int, int]:
        """The newest position that it must be behind; it is the newest one from now on."""
        place, key = (arrived.topic, arrived.partition), (arrived.topic, arrived.key)
        highest, between = self._highest.get(place, (0, 0)), self._between.get(place, (0, 0))
        is_between = self.has_one_writer or arrived.kind == "TRUNCATE"
        last = highest if is_between else max(between, self._of_key.get(key, (0, 0)))
        self._highest[place] = max(highest, arrived.position)
        self._of_key[key] = max(last, arrived.position)
        if is_between:
            self._between[place] = self._highest[place]
        return last

    def _mirrored(self, arrived: Sequence[Arrived], dsn: str) -> Iterator[Violation]:
        for _, of_one in groupby(sorted(arrived, key=lambda each: each.position), key=lambda each: each.commit_lsn):
            for each in of_one:
                wrong = self.mirror.apply(each)
                if wrong is not None:
                    yield Violation("I6", wrong)
            if self.mirror.balance() != tables.ACCOUNTS * tables.OPENING_BALANCE:
                yield Violation("I6", f"the sum of all accounts is wrong after {each.event['position']['commit_lsn']}")
        for difference in self.mirror.differences(dsn):
            yield Violation("I6", difference)

    def sampled(self, evidence: Evidence) -> Iterator[Violation]:
        for sample in evidence.samples:
            server, confirmed = self._confirmed
            if sample.server == server and sample.confirmed < confirmed:
                yield Violation("I12", f"the slot went back by {confirmed - sample.confirmed} bytes")
            self._confirmed = sample.server, sample.confirmed
            for sink, ack in sample.acks.items():
                if ack.safe_lsn < self._acked.get(sink, 0) and not evidence.acks_may_vanish:
                    yield Violation("I12", f"the ack of {sink} went back")
                self._acked[sink] = max(self._acked.get(sink, 0), ack.safe_lsn)
            lowest = min((self._acked.get(sink, 0) for sink in self.required), default=0)
            # Before the first ack a slot stands where it was created.
            if lowest and sample.confirmed > lowest and not evidence.acks_may_vanish:
                yield Violation("I3", f"confirmed is {sample.confirmed - lowest} bytes above the lowest ack")


def _transactions(
    witnessed: Iterable[Transaction], arrived: Iterable[Arrived], dead: Set[tuple[int, int]]
) -> Iterator[Violation]:
    """Each whole, each change with its values, none that the other decoder does not know, commits in its order."""
    by_xid: dict[int, list[Arrived]] = {}
    for each in arrived:
        by_xid.setdefault(each.xid, []).append(each)
    commits = []
    for transaction in witnessed:
        events = sorted(by_xid.pop(transaction.xid, ()), key=lambda each: each.position)
        yield from _compared(transaction, events, dead)
        commits += [events[0].commit_lsn] if events else []
    for xid, events in by_xid.items():
        yield Violation("I2", f"{len(events)} events of transaction {xid}, which never was")
    if any(later <= earlier for earlier, later in pairwise(commits)):
        yield Violation("I4", "commits are not in the order of the source")


def _compared(transaction: Transaction, events: Sequence[Arrived], dead: Set[tuple[int, int]]) -> Iterator[Violation]:
    numbered = [
        (ordinal, change)
        for ordinal, change in enumerate(transaction.changes)
        if (transaction.xid, ordinal) not in dead
    ]
    if len(numbered) != len(events):
        short = len(numbered) - len(events)
        kind, what = ("I1", "missing") if short > 0 else ("I2", "too many")
        yield Violation(kind, f"transaction {transaction.xid}: {abs(short)} of {len(numbered)} events {what}")
        return
    changes = [change for _, change in numbered]
    # A TRUNCATE of several tables has one ordinal, a message has one and is no event.
    is_counted = all(change.kind != "TRUNCATE" for change in changes) and not transaction.has_messages
    if is_counted and [each.position[1] for each in events] != [ordinal for ordinal, _ in numbered]:
        yield Violation("I4", f"transaction {transaction.xid}: its events are not counted from 0 without gaps")
    for change, event in zip(changes, events, strict=True):
        wrong = _difference(change, event)
        if wrong:
            yield Violation("I1", f"transaction {transaction.xid}, {change.table}: {wrong}")


def _difference(change: Seen, arrived: Arrived) -> str:
    payload = arrived.event["payload"]
    if (change.table, change.kind) != (arrived.table, arrived.kind):
        return f"{arrived.kind} on {arrived.table} in the place of {change.kind}"
    if change.kind == "TRUNCATE":
        return ""
    row, old = payload["row"] or {}, payload["old"] or {}
    if set(payload.get("unchanged", ())) != change.unchanged:
        return "the unchanged columns are others"
    for name, values, wanted in (("row", row, change.new), ("old", old, change.old)):
        if values.keys() != wanted.keys() and not (name == "old" and not wanted):
            return f"the columns of its {name} are others"
        for column in values.keys() & wanted.keys():
            if values[column] != tables.as_json(column, wanted[column]):
                return f"{name}.{column} has another value"
    return ""


def _outcomes(entries: Iterable[Entry], arrived: Iterable[Arrived], dead: Set[str]) -> Iterator[Violation]:
    """By tokens, where a transaction may not have been: a server that crashed gives its xid to another one."""
    tokens: dict[int, list[str]] = {}
    everything: set[str] = set()
    for each in sorted(arrived, key=lambda each: each.position):
        row = each.event["payload"]["row"]
        if row is not None and "token" in row:
            tokens.setdefault(each.xid, []).append(row["token"])
            everything.add(row["token"])
    for entry in entries:
        found = tokens.get(entry.xid, [])
        wanted = [token for token in entry.tokens if token not in dead]
        own = [token for token in found if token in entry.tokens]
        if entry.outcome is Outcome.FAIL and everything.intersection(entry.tokens):
            yield Violation("I2", f"transaction {entry.xid} failed, and {len(own)} rows of it are delivered")
        elif entry.outcome is Outcome.OK and found != wanted:
            yield Violation("I1", f"transaction {entry.xid}: {len(found)} of {len(wanted)} rows are delivered")
        elif entry.outcome is Outcome.INFO and own not in ([], wanted):
            yield Violation("I1", f"transaction {entry.xid}, whose COMMIT was not answered, is delivered in part")
        if everything.intersection(entry.undone):
            yield Violation("I2", f"transaction {entry.xid}: rows of an aborted savepoint are delivered")


def _not_durable(samples: Sequence[Sample], arrived: Iterable[Arrived]) -> Iterator[Violation]:
    """Whatever lies below the confirmed LSN was readable in its topic then."""
    later = _ends_later(samples)
    by_commit = sorted(arrived, key=lambda each: each.commit_lsn)
    highest: dict[tuple[str, int], int] = {}
    at = 0
    for sample, ends in zip(samples, later, strict=True):
        while at < len(by_commit) and by_commit[at].commit_lsn < sample.confirmed:
            each = by_commit[at]
            highest[each.topic, each.partition] = max(highest.get((each.topic, each.partition), -1), each.offset)
            at += 1
        for place, end in ends.items():
            if 0 <= end <= highest.get(place, -1):  # a broker that has just started may not know its ends
                yield Violation("I3", f"confirmed what {place[0]} did not hold yet: offset {highest[place]} of {end}")


def _ends_later(samples: Sequence[Sample]) -> list[Mapping[tuple[str, int], int]]:
    """For each sample the ends of the topics a moment after it; none where there is no such sample."""
    ends: list[Mapping[tuple[str, int], int]] = []
    at = 0
    for sample in samples:
        while at < len(samples) and samples[at].time < sample.time + _MARKER_SECONDS:
            at += 1
        # Where samples are missing a moment has become long: what came meanwhile proves nothing.
        is_near = at < len(samples) and samples[at].time < sample.time + 2 * _MARKER_SECONDS
        ends.append(samples[at].ends if is_near else {})
    return ends


def _first(found: Iterator[Violation]) -> Iterator[Violation]:
    """All of them would say the same many times."""
    counts: dict[str, int] = {}
    for violation in found:
        counts[violation.invariant] = counts.get(violation.invariant, 0) + 1
        if counts[violation.invariant] <= _MOST_TOLD:
            yield violation
