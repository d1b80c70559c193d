"""One trial after another: a seed, a fault while the load flows, a barrier, a result. A broken field is replaced.

Invariant: a trial that could not be done is an error and never a success; what a violation leaves behind is kept.
"""

import platform
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis
from chaos.fleet import faults
from chaos.fleet.cases import Alone, Case, Tier, Variant
from chaos.fleet.field import CATCH_UP_SECONDS, Fault, Field, Outcome, waiting_for
from chaos.fleet.judge import Violation
from chaos.fleet.kills import Kills, Told
from chaos.fleet.rig import Rig, Servers
from confluent_kafka import KafkaException
from kit.wait import DeadlinePassedError, wait

from tidegate.errors import ExitCode

_LOG_BYTES = 400_000


@dataclass(frozen=True, slots=True)
class Result:
    case: str
    variant: str
    seed: str
    seconds: float
    recovery_seconds: float
    transactions: int
    events: int
    duplicates: int
    held_bytes: int
    reader_bytes: int
    resident_bytes: Mapping[str, int] = field(default_factory=dict)
    """The most of each process that was looked at."""
    kills: Told = field(default_factory=dict)
    violations: Sequence[str] = ()
    error: str = ""

    @property
    def is_good(self) -> bool:
        return not self.violations and not self.error


@dataclass
class Trials:
    """The fields of one run, one at a time."""

    servers: Servers
    seed: str
    keep: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    tell: Callable[[str], None] = lambda _said: None
    prefix: str = "chaos"
    tier: Tier = Tier.QUICK
    writers: int = 1
    """Of the lane, where a trial has no pipeline of its own."""
    goes_on: bool = False
    """Also on a field that is broken: for who broke it himself."""
    _field: Field | None = None
    _rig: Rig | None = None
    """Of a trial that has a pipeline of its own."""
    _fields: int = 0

    def run(self, case: Case, variant: Variant, number: int) -> Result:
        seed = f"{self.seed}/{case.number}/{variant.name}/{number}"
        begun = time.monotonic()
        outcome, duplicates, error, kills = Outcome(), 0, "", Kills()
        try:
            if isinstance(variant.fault, Alone):
                outcome = self._alone(variant.fault, random.Random(seed))
            else:
                ground = self.ground()
                before, ground.kills = ground.duplicates, kills
                tried = self._lost if variant.lost else self._tried
                outcome = tried(ground, variant.fault, random.Random(seed))
                duplicates = ground.duplicates - before
        except (DeadlinePassedError, AssertionError) as failed:
            error = str(failed).partition(" (last seen")[0][:300] or type(failed).__name__
            invariant, colon, what = error.partition(": ")
            if colon and len(invariant) <= 3:
                outcome.violations.append(Violation(invariant, what))
                error = ""
        except (psycopg.Error, KafkaException, redis.RedisError, OSError) as failed:
            error = f"{type(failed).__name__} in the trial itself: {str(failed)[:200].partition(chr(10))[0]}"
        result = self._result(case, variant, seed, time.monotonic() - begun, outcome, duplicates, kills, error)
        if not result.is_good:
            self._keep_evidence(result)
        self._end_alone()
        if variant.lost or not (result.is_good or self.goes_on):
            self.close()
        return result

    @property
    def is_standing(self) -> bool:
        return self._field is not None

    def ground(self) -> Field:
        if self._field is None:
            self._fields += 1
            name = f"{self.prefix}{self._fields}"
            self.tell(f"a new pipeline, {name}, starts")
            self._field = Field(self.servers, name, f"{self.seed}/{name}", dict(self.environment), self.writers)
            outcome = self._field.start()
            if outcome.violations:
                raise AssertionError("; ".join(map(str, outcome.violations)))
        return self._field

    def close(self) -> None:
        ground, self._field = self._field, None
        if ground is not None:
            self._heal()
            ground.close()
            ground.rig.drop()

    def _alone(self, trial: Alone, draw: random.Random) -> Outcome:
        self.close()  # two pipelines at once would only be slow
        self._fields += 1
        name = f"{self.prefix}{self._fields}"
        settings = trial.settings(self.tier)
        self._rig = Rig(
            self.servers, name, dict(self.environment), settings=settings, options={"partitions": 1, **trial.options}
        )
        return trial.run(self._rig, self.servers, self.tier, draw)

    def _end_alone(self) -> None:
        rig, self._rig = self._rig, None
        if rig is not None:
            self._heal()
            rig.close()
            rig.drop()

    def _heal(self) -> None:
        for server in (self.servers.postgres, self.servers.kafka, self.servers.redis):
            server.start()

    @staticmethod
    def _tried(ground: Field, fault: Fault, draw: random.Random) -> Outcome:
        with ground.load.flowing():
            ground.load.wait_for(5, 30)
            fault(ground, draw)
            if draw.random() < 0.5:
                faults.flow(ground, draw)  # what heals meets work, and not only an end
            for keeper in (ground.reader, ground.processor):
                if keeper.is_down:
                    raise AssertionError(f"I7: the {keeper.name} ended with {keeper.exits[-1]}: a person has to act")
        return ground.barrier()

    @staticmethod
    def _lost(ground: Field, fault: Fault, draw: random.Random) -> Outcome:
        outcome = Outcome()
        with ground.load.flowing():
            ground.load.wait_for(5, 30)
            fault(ground, draw)
            begun = time.monotonic()
            with waiting_for(outcome.violations, "I8", CATCH_UP_SECONDS):
                wait(lambda: ground.reader.is_down, CATCH_UP_SECONDS, "the reader calls it LOST and stays down")
            outcome.recovery_seconds = time.monotonic() - begun
        if not outcome.violations and ground.reader.exits[-1] != ExitCode.LOST:
            outcome.violations.append(Violation("I8", f"the reader ended with {ground.reader.exits[-1]}, not with 3"))
        return outcome

    def _result(
        self,
        case: Case,
        variant: Variant,
        seed: str,
        seconds: float,
        outcome: Outcome,
        duplicates: int,
        kills: Kills,
        error: str,
    ) -> Result:
        figures = outcome.figures or (self._field.figures if self._field is not None else None)
        return Result(
            case=case.number,
            variant=variant.name,
            seed=seed,
            seconds=round(seconds, 1),
            recovery_seconds=round(outcome.recovery_seconds, 2),
            transactions=outcome.transactions,
            events=outcome.events,
            duplicates=duplicates,
            held_bytes=figures.held_bytes if figures else 0,
            reader_bytes=figures.resident_bytes.get("reader", 0) if figures else 0,
            resident_bytes=dict(figures.resident_bytes) if figures else {},
            kills=kills.told(),
            violations=tuple(map(str, outcome.violations)),
            error=error,
        )

    def _keep_evidence(self, result: Result) -> None:
        rig = self._rig or (self._field.rig if self._field else None)
        if rig is None:
            return
        place = self.keep / f"{result.case}-{self._fields}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "result.txt").write_text("\n".join([result.seed, result.error, *result.violations]) + "\n")
        servers = self.servers.postgres, self.servers.kafka, self.servers.redis
        for log in (*rig.folder.glob("*.log"), *(log for each in servers for log in each.folder.glob("*.log"))):
            with log.open("rb") as source, (place / log.name).open("wb") as kept:
                source.seek(max(0, log.stat().st_size - _LOG_BYTES))
                shutil.copyfileobj(source, kept)


def plan(cases: Sequence[Case], count: Callable[[Variant], int], seed: str = "") -> Iterator[tuple[Case, Variant, int]]:
    """Each variant once, then each again, so that a run that is cut short has tried many things. Those that end a
    pipeline, or have one of their own, come last in their turn, the others in an order that the seed draws. What the
    machine lacks something for is left out."""
    variants = [(case, variant) for case in cases for variant in case.variants if not variant.lacks]
    turns = [(case, variant, count(variant)) for case, variant in variants]
    random.Random(seed).shuffle(turns)
    turns.sort(key=lambda turn: turn[1].lost or isinstance(turn[1].fault, Alone))
    for number in range(max((times for _, _, times in turns), default=0)):
        for case, variant, times in turns:
            if number < times:
                yield case, variant, number


def machine() -> str:
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
