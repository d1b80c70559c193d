"""One contestant, once: started, warmed, given each backlog, loaded live, killed, stopped; what it did is an outcome.

    slot → start → first event → warm-up → [ intake stands → WAL is written → intake goes on → all there? ] … → live …
    → kill -9 → first new event → stop

Every contestant goes through the same steps with the same rows, and has the servers to itself meanwhile. The first
events after a start are not counted into speed, because compilers are still at work.
"""

import logging
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from confluent_kafka import KafkaException

from bench.contestants.base import Contestant, ContestantError
from bench.live import measure_live
from bench.measure.consumer import Reading, Verdict, judge, make_topics, together
from bench.measure.ends import Ends
from bench.measure.processes import bytes_of_topics
from bench.measure.watch import Spent, Watch
from bench.outcome import Figure, Phase, SessionResult
from bench.source import LIMIT_SLOT, Source
from bench.workloads import ALWAYS, LIVE_TABLE, WARM_TABLE, Load, Workload
from tidegate.stack.kafka import Kafka

START_SECONDS = 180.0
QUIET_SECONDS = 300.0
"""Nothing arrives for so long: the session is over."""
MILLION = 1e6
# What may go wrong in one contestant's session without ending the run; an event may also not be what it should be.
FAILURES = (ContestantError, KafkaException, psycopg.Error, subprocess.SubprocessError, LookupError, ValueError)

log = logging.getLogger("bench")


@dataclass
class Session:
    contestant: Contestant
    source: Source
    kafka: Kafka
    workloads: Sequence[Workload]
    loads: Sequence[Load]
    warm_rows: int
    result: SessionResult
    recovers: bool = True

    def run(self) -> SessionResult:
        tables = (*ALWAYS, *(table for workload in self.workloads for table in workload.tables))
        try:
            self.source.make_tables(self.workloads)
            self.source.make_slot(self.contestant.rig.slot)
            make_topics(self.kafka.bootstrap, self._topics(tables))
            self._run()
        except FAILURES as error:
            self.result.problem = f"{type(error).__name__}: {error}"
            log.warning("%s: %s", self.contestant.label, error)
        finally:
            self.contestant.kill()
        return self.result

    def _run(self) -> None:
        self._begin()
        for workload in self.workloads:
            with self._phase(workload.name) as phase:
                self._backlog(workload, phase)
        with self._reading(LIVE_TABLE) as reading:
            for load in self.loads:
                with self._phase(load.name) as phase:
                    measure_live(self.contestant, self.source, reading, load, self._watch(), phase)
            if self.recovers:
                with self._phase("recovery") as phase:
                    self._recover(reading, phase)
        self.contestant.stop()

    def _topics(self, tables: Iterable[str]) -> list[str]:
        return [topic for table in tables for topic in self.contestant.copies(table)]

    @contextmanager
    def _reading(self, *tables: str) -> Iterator[Reading]:
        reading = Reading(self.kafka.bootstrap, self._topics(tables), alive=self.contestant.check)
        try:
            yield reading
        finally:
            reading.close()

    @contextmanager
    def _phase(self, name: str) -> Iterator[Phase]:
        """What went wrong in a phase ends the session, and stands in the phase too."""
        phase = Phase(name)
        self.result.phases.append(phase)
        log.info("%s: %s", self.contestant.label, name)
        try:
            yield phase
        except FAILURES as error:
            phase.problem = str(error)
            raise

    def _begin(self) -> None:
        topics = [self.contestant.rig.topic(WARM_TABLE)]
        with self._reading(WARM_TABLE) as reading:
            with self._phase("start") as phase:
                self.source.write_rows(WARM_TABLE, 1)
                begun = time.monotonic()
                self.contestant.start()
                if not reading.count(1, topics, START_SECONDS):
                    raise ContestantError(f"no event within {START_SECONDS:.0f} s")
                phase.figures[Figure.START] = time.monotonic() - begun
            self.source.write_rows(WARM_TABLE, self.warm_rows)
            if not reading.count(self.warm_rows, topics, QUIET_SECONDS):
                raise ContestantError(f"of {self.warm_rows:,} events to warm up not all came")

    def _backlog(self, workload: Workload, phase: Phase) -> None:
        self.contestant.pause()
        self.source.make_slot(LIMIT_SLOT)
        self.source.write(workload)
        limit_seconds, limit_cpu = self.source.limit()
        data, prefixes = self.kafka.folder / "data", self.contestant.topics()
        topics = self._topics(workload.tables)
        ends = Ends(self.kafka.bootstrap, topics)
        wanted = ends.total() + workload.events * len(topics) // len(workload.tables)
        before = bytes_of_topics(data, prefixes)
        with self._watch() as watch:
            self.contestant.resume()
            stood = ends.stood(wanted, watch.mark, self.contestant.check, QUIET_SECONDS)
            spent = watch.end()
        written = bytes_of_topics(data, prefixes) - before
        _put(phase, self._judged(workload), spent)
        if not phase.is_complete:
            raise ContestantError(f"{workload.name}: {phase.lost:,} events lost, {phase.overtaken:,} out of order")
        ends.check_still(stood)
        if phase.doubled:
            log.warning("%s: %s: %s came again: no speed", self.contestant.label, workload.name, f"{phase.doubled:,}")
            return  # the others did not do that work
        events = workload.events
        phase.figures |= {
            Figure.RATE: events / spent.seconds,
            Figure.SHARE_OF_LIMIT: limit_seconds / spent.seconds,
            Figure.LIMIT_RATE: events / limit_seconds,
            Figure.LIMIT_CPU: limit_cpu / events * MILLION,
            Figure.CPU: spent.contestant_cpu / events * MILLION,
            Figure.BROKER_CPU: spent.broker_cpu / events * MILLION,
            Figure.SOURCE_CPU: spent.source_cpu / events * MILLION,
            Figure.RSS: spent.rss_peak_mb,
            Figure.KAFKA_BYTES: written / events,
        }

    def _judged(self, workload: Workload) -> Verdict:
        """Every lane by itself: each has all events, and none may stand for another's."""
        copies = zip(*(self.contestant.copies(table) for table in workload.tables), strict=True)
        return together([self._judged_copy(workload, topics) for topics in copies])

    def _judged_copy(self, workload: Workload, topics: Sequence[str]) -> Verdict:
        again = Reading(self.kafka.bootstrap, topics, alive=self.contestant.check)
        try:
            return judge(again, workload, self.contestant.change)
        finally:
            again.close()

    def _recover(self, reading: Reading, phase: Phase) -> None:
        wanted = self.source.live_keys() + 1
        self.contestant.kill()
        begun = time.monotonic()
        self.source.write_rows(LIVE_TABLE, 1)
        self.contestant.start()
        doubled = 0
        live = self.contestant.rig.topic(LIVE_TABLE)
        for events in reading.arrived(START_SECONDS):
            keys = [self.contestant.change(each.value()).key for each in events if each.topic() == live]
            doubled += sum(key < wanted for key in keys)
            if wanted in keys:
                break
        else:
            raise ContestantError(f"no new event within {START_SECONDS:.0f} s of kill -9")
        phase.figures |= {Figure.RECOVERY: time.monotonic() - begun, Figure.DOUBLED_BY_KILL: doubled}

    def _watch(self) -> Watch:
        broker, source = self.kafka.pid or 0, self.source.postgres.pid or 0
        return Watch(self.contestant.pids, broker, source, self.source.dsn, self.contestant.rig.slot)


def _put(phase: Phase, verdict: Verdict, spent: Spent) -> None:
    phase.expected, phase.lost, phase.doubled = verdict.expected, verdict.lost, verdict.doubled
    phase.overtaken = verdict.overtaken + verdict.foreign
    phase.others_share, phase.is_noisy = spent.others_share + spent.stolen_share, spent.is_noisy
