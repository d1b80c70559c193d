"""How far a slot may be advanced: by all who read it, on its own server, and not at all where one is not known."""

from typing import Any

import pytest
from kit.admin import make_config, make_observation

from tidegate.config.pipeline import PipelineConfig
from tidegate_admin.pipelines.service import Levels, PipelineView, pipeline_view
from tidegate_admin.slots.acked import lowest_acked
from tidegate_admin.source.places import on_database_of

SLOT = "tidegate_shop"


def config(name: str, host: str = "db", database: str = "shop", port: int = 5432) -> PipelineConfig:
    source: dict[str, Any] = {
        "dsn": f"postgresql://tidegate@{host}:{port}/{database}",
        "publication": {"tables": ["public.orders"]},
        "slot": {"name": SLOT},
    }
    return make_config(name, source=source)


def view(of: PipelineConfig, safe_lsn: int) -> PipelineView:
    return pipeline_view(of, make_observation(safe_lsn=safe_lsn), Levels())


def acked(own: PipelineConfig, *told: tuple[PipelineConfig, int | None]) -> int | None:
    views = {each.pipeline: view(each, lsn) for each, lsn in told if lsn is not None}
    return lowest_acked(views, on_database_of(own, [each for each, _ in told]), SLOT)


def test_what_another_server_acked_under_the_same_name_does_not_count() -> None:
    own = config("shop")
    strangers = [config("a", host="elsewhere"), config("b", port=5433), config("c", database="other")]
    assert acked(own, *((each, 900_000) for each in strangers), (own, 500)) == 500
    assert acked(own, *((each, 400) for each in strangers), (own, 500)) == 500


def test_the_lowest_of_all_who_read_the_slot_counts() -> None:
    own, twin = config("shop"), config("twin")
    assert acked(own, (own, 500), (twin, 400)) == 400
    assert acked(own, (twin, 500), (own, 400)) == 400


@pytest.mark.parametrize("known", [0, 1])
def test_one_of_whom_nothing_is_known_makes_it_unknown(known: int) -> None:
    told = [config("shop"), config("twin")]
    assert acked(told[0], *((each, 500 if index == known else None) for index, each in enumerate(told))) is None


def test_a_slot_that_no_pipeline_reads_is_acked_by_nobody() -> None:
    own = config("shop")
    assert lowest_acked({"shop": view(own, 500)}, [own], "tidegate_orphan") is None
