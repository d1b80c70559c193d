"""A file that changes under a running processor: what is taken over, what is refused, and what stays in force."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kit.pipelines import document, secrets_of

from tidegate.config.epoch import lane_epoch
from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.config.reloads import Reloads, names

REDIS = "redis://:secret@127.0.0.1:6379"
ENVIRON = secrets_of(redis_url=REDIS)
MASK = {"type": "mask", "options": {"columns": ["note"], "how": "zero"}}


class File:
    def __init__(self, path: Path) -> None:
        self.path, self.time = path, 0.0
        self.values = document("shop", kafka="127.0.0.1:9092", redis_url=REDIS)
        self.values["sinks"].append({"name": "others", "type": "kafka_topics"})
        self.write()
        self.reloads = Reloads("processor", path, self.load(), self.load, lambda: self.time)

    def load(self) -> PipelineConfig:
        return load_pipeline(self.path, (), ENVIRON)

    def write(self, text: str | None = None) -> None:
        self.path.write_text(yaml.safe_dump(self.values) if text is None else text)

    def after(self, seconds: int) -> set[str]:
        """All that is told meanwhile."""
        found: set[str] = set()
        for _ in range(seconds):
            self.time += 1.0
            found |= self.look()
        return found

    def look(self) -> set[str]:
        """Sinks of which the configuration that is in force now says something else than the one before."""
        before = self.reloads.look()
        if before is None:
            return set()
        now, kept = self.reloads.in_force, names(before) & names(self.reloads.in_force)
        changed = {sink for sink in kept if lane_epoch(before, sink) != lane_epoch(now, sink)}
        return changed | (names(before) ^ names(now))


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "pipeline.yaml")


def test_a_file_that_stays_is_not_read_again(file: File) -> None:
    in_force = file.reloads.in_force

    assert file.after(10) == set()
    assert file.reloads.in_force is in_force


def test_a_sinks_own_transforms_concern_its_lane_alone(file: File) -> None:
    file.values["sinks"][1]["transforms"] = [MASK]
    file.write()

    assert file.after(3) == {"others"}
    assert len(file.reloads.in_force.sink("others").transforms) == 1


def test_the_pipelines_transforms_concern_all_lanes(file: File) -> None:
    file.values["transforms"] = [MASK]
    file.write()

    assert file.after(3) == {"events", "others"}


def test_routes_are_taken_over(file: File) -> None:
    file.values["sinks"][0]["routes"] = [{"tables": ["public.orders"]}]
    file.write()

    assert file.after(3) == {"events"}


def test_a_sink_that_comes_is_in_force_and_one_that_goes_is_not(file: File) -> None:
    del file.values["sinks"][0]
    file.values["sinks"].append({"name": "third", "type": "kafka_topics"})
    file.write()

    assert file.after(3) == {"events", "third"}
    assert names(file.reloads.in_force) == {"others", "third"}


def test_in_what_order_sinks_stand_is_nothing_new(file: File) -> None:
    file.values["sinks"].reverse()
    file.write()

    assert file.after(3) == set()
    assert file.reloads.complaint is None


def test_one_that_leaves_and_comes_back_with_other_options_takes_two_files(file: File) -> None:
    gone = file.values["sinks"].pop()
    file.write()
    assert file.after(3) == {"others"}
    file.values["sinks"].append(gone | {"required": False})
    file.write()

    assert file.after(3) == {"others"}
    assert not file.reloads.in_force.sink("others").required


def test_who_asks_need_not_wait(file: File) -> None:
    file.values["transforms"] = [MASK]
    file.write()
    file.reloads.ask()

    assert file.look() == {"events", "others"}
    assert file.after(5) == set()


def test_a_file_that_still_grows_is_waited_for(file: File) -> None:
    file.write("pipeline: sh")
    assert file.after(1) == set()
    file.values["transforms"] = [MASK]
    file.write()

    assert file.after(3) == {"events", "others"}
    assert file.reloads.refusal is None


def _broken(values: dict[str, Any]) -> None:
    values["transforms"] = [{"type": "mask", "options": {}}]


def _elsewhere(values: dict[str, Any]) -> None:
    values["kafka"]["bootstrap"] = "127.0.0.1:9093"


def _another_sink_and_more(values: dict[str, Any]) -> None:
    values["sinks"].append({"name": "third", "type": "kafka_topics"})
    values["snapshot"] = {"mode": "always"}


def _not_required_any_more(values: dict[str, Any]) -> None:
    values["sinks"][1]["required"] = False


def _no_sink(values: dict[str, Any]) -> None:
    values["sinks"] = []


def _both(values: dict[str, Any]) -> None:
    values["transforms"] = [MASK]
    values["sinks"][0]["options"] = {"partitions": 2}


@pytest.mark.parametrize(
    ("change", "code", "paths"),
    [
        (_broken, "CONFIG_INVALID", {"transforms[0].options.columns", "transforms[0].options.how"}),
        (_elsewhere, "CONFIG_NEEDS_RESTART", {"kafka.bootstrap"}),
        (_another_sink_and_more, "CONFIG_NEEDS_RESTART", {"snapshot.mode"}),
        (_not_required_any_more, "CONFIG_NEEDS_RESTART", {"sinks.others.required"}),
        (_no_sink, "CONFIG_INVALID", {"sinks"}),
        (_both, "CONFIG_NEEDS_RESTART", {"sinks.events.options.partitions"}),
    ],
)
def test_what_is_refused_leaves_the_one_before_in_force(
    file: File, change: Callable[[dict[str, Any]], None], code: str, paths: set[str]
) -> None:
    in_force = file.reloads.in_force
    change(file.values)
    file.write()

    assert file.after(5) == set()
    assert file.reloads.in_force is in_force
    refusal = file.reloads.refusal
    assert refusal is not None
    assert (refusal.code, {problem.path for problem in refusal.problems}) == (code, paths)


def test_a_file_that_is_gone_or_no_yaml_is_refused_and_one_that_is_mended_is_taken(file: File) -> None:
    file.path.unlink()
    assert file.after(3) == set()
    assert file.reloads.refusal is not None
    file.write("{")
    assert file.after(3) == set()
    assert file.reloads.refusal is not None
    file.values["transforms"] = [MASK]
    file.write()

    assert file.after(3) == {"events", "others"}
    assert file.reloads.refusal is None
