"""A file that changes under a running admin service: the pipeline is shown as the other services take it over."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidegate.config.pipeline import PipelineConfig
from tidegate_admin.access import Access
from tidegate_admin.config import AdminSettings, load_settings
from tidegate_admin.configuration.schemas import Candidate
from tidegate_admin.configuration.service import changes, read
from tidegate_admin.follower import Follower
from tidegate_admin.health.service import lane_part
from tidegate_admin.pipelines.watch import Watch

DOCUMENT: dict[str, Any] = {
    "pipeline": "shop",
    "source": {"dsn": "postgresql://tidegate@localhost/shop", "publication": {"tables": ["public.orders"]}},
    "kafka": {"bootstrap": "localhost:9092"},
    "redis": {"url": "redis://localhost/0"},
    "sinks": [{"name": "events", "type": "kafka_topics"}, {"name": "old", "type": "kafka_topics"}],
}
NEW = {"name": "new", "type": "kafka_topics", "required": False}


def with_sinks(*sinks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return DOCUMENT | {"sinks": list(sinks)} | more


@pytest.fixture
def settings(tmp_path: Path) -> AdminSettings:
    path = tmp_path / "shop.yaml"
    path.write_text(yaml.safe_dump(DOCUMENT))
    return load_settings([path], environ={})


def follow(settings: AdminSettings, document: dict[str, Any]) -> tuple[Watch, Access]:
    watch, access = Watch(settings.pipelines), Access(settings)
    follower = Follower(settings.reloads, (watch.follow, access.follow))
    settings.files["shop"].write_text(yaml.safe_dump(document))
    follower.ask()
    asyncio.run(follower.look(settings.reloads[0]))
    return watch, access


def test_a_lane_that_comes_is_shown_and_one_that_goes_is_not(settings: AdminSettings) -> None:
    watch, access = follow(settings, with_sinks(DOCUMENT["sinks"][0], NEW))

    lanes = {part for part in watch.components("shop") if part.startswith("lane/")}
    assert lanes == {lane_part("events"), lane_part("new")}
    assert (access.of("shop").has_sink("new"), access.of("shop").has_sink("old")) == (True, False)


def test_what_services_refuse_is_not_shown_as_if_it_were_in_force(settings: AdminSettings) -> None:
    watch, access = follow(settings, with_sinks(DOCUMENT["sinks"][0], NEW, raw_topic={"linger": "9ms"}))

    assert lane_part("old") in watch.components("shop")
    assert access.of("shop").has_sink("old")


def config(document: dict[str, Any]) -> PipelineConfig:
    return read(Candidate(document=document))


@pytest.mark.parametrize(
    ("document", "effects"),
    [
        (with_sinks(DOCUMENT["sinks"][0], NEW), {"sinks.new": "at once", "sinks.old": "at once"}),
        (
            with_sinks(DOCUMENT["sinks"][0] | {"routes": [{"tables": ["public.orders"]}]}, DOCUMENT["sinks"][1]),
            {"sinks.events.routes": "at once"},
        ),
        (
            with_sinks(*DOCUMENT["sinks"], NEW, raw_topic={"linger": "9ms"}),
            {
                "raw_topic.linger": "restart the reader and the processor",
                "sinks.new": "with the restart that another change asks for",
            },
        ),
        (
            with_sinks(DOCUMENT["sinks"][0] | {"options": {"partitions": 2}}, DOCUMENT["sinks"][1]),
            {"sinks.events.options.partitions": "restart the processor"},
        ),
        (
            with_sinks(DOCUMENT["sinks"][0] | {"required": False}, DOCUMENT["sinks"][1], snapshot={"mode": "initial"}),
            {"sinks.events.required": "restart the reader and the processor", "snapshot.mode": "restart the reader"},
        ),
    ],
)
def test_a_change_says_what_it_takes(document: dict[str, Any], effects: dict[str, str]) -> None:
    found = changes(config(DOCUMENT), config(document))

    assert {change.path: change.effect for change in found} == effects
