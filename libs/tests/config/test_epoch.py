"""When two configurations are the same."""

from typing import Any

import pytest

from tidegate.config.epoch import config_epoch, lane_epoch
from tidegate.config.load import pipeline_from
from tidegate.config.pipeline import PipelineConfig


@pytest.mark.parametrize("section", ["reader", "admin", "processor"])
def test_a_service_s_own_settings_are_no_part_of_it(
    document: dict[str, Any], environ: dict[str, str], section: str
) -> None:
    changed = {**document, section: {"http": "127.0.0.1:9999"}}

    assert config_epoch(pipeline_from(document, (), environ)) == config_epoch(pipeline_from(changed, (), environ))


def test_where_a_secret_comes_from_is_no_part_of_it(document: dict[str, Any], environ: dict[str, str]) -> None:
    document["sinks"][0]["options"] = {"token": "${env:PGPASSWORD}"}
    before = pipeline_from(document, (), environ)
    document["source"]["password"] = "${env:B}"
    document["sinks"][0]["options"] = {"token": "${env:B}"}
    after = pipeline_from(document, (), {"B": "other"})

    assert config_epoch(before) == config_epoch(after)
    assert lane_epoch(before, "events") == lane_epoch(after, "events")


def test_a_lane_s_epoch_follows_what_it_delivers(document: dict[str, Any], environ: dict[str, str]) -> None:
    before = pipeline_from(document, (), environ)
    document["sinks"].append({"name": "other", "type": "kafka_topics"})
    document["sinks"][0]["required"] = False
    other_sink = pipeline_from(document, (), environ)
    document["sinks"][0]["options"] = {"topic": "x"}
    other_options = pipeline_from(document, (), environ)

    assert lane_epoch(before, "events") == lane_epoch(other_sink, "events")
    assert lane_epoch(before, "events") != lane_epoch(other_options, "events")
    assert len({config_epoch(config) for config in (before, other_sink, other_options)}) == 3


def test_where_spans_go_is_no_part_of_it_but_which_records_are_marked_is(
    document: dict[str, Any], environ: dict[str, str]
) -> None:
    def traced(**tracing: object) -> PipelineConfig:
        return pipeline_from({**document, "tracing": {"endpoint": "http://a", **tracing}}, (), environ)

    assert config_epoch(traced()) == config_epoch(traced(endpoint="https://b", ca="/ca.pem"))
    assert lane_epoch(traced(), "events") == lane_epoch(traced(endpoint="https://b"), "events")
    for epoch in (config_epoch, lambda config: lane_epoch(config, "events")):
        assert len({epoch(each) for each in (pipeline_from(document, (), environ), traced(), traced(ratio=0.5))}) == 3


def test_the_epoch_of_a_configuration_never_changes(document: dict[str, Any], environ: dict[str, str]) -> None:
    """It is stored beside cursors: another value here is another configuration for every running lane."""
    assert lane_epoch(pipeline_from(document, (), environ), "events") == "7960ca11cd9e356c"
