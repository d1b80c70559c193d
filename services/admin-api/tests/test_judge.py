"""Judging a configuration keeps nobody waiting: one file is read at a time, and its URLs have one deadline together."""

import asyncio
import threading
from typing import Any

import pytest
from kit.admin import make_config
from kit.wait import wait_async

from tidegate.errors import TransientError
from tidegate_admin.configuration import service
from tidegate_admin.configuration.schemas import Candidate
from tidegate_admin.configuration.service import Judge, shown
from tidegate_admin.security import egress
from tidegate_admin.security.egress import Egress


def candidate(*urls: str) -> Candidate:
    document = shown(make_config())
    document["sinks"][0]["options"] = {"urls": list(urls)}
    return Candidate(document=document)


def problems(wanted: Candidate) -> list[tuple[str, str]]:
    _, verdict = asyncio.run(Judge(Egress()).judge(wanted))
    assert verdict.valid is (not verdict.problems)
    return [(each.pointer, each.code) for each in verdict.problems]


class Slow:
    """Reads as the service does, once it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.inside = self.most = 0
        self._read = service.pipeline_from
        monkeypatch.setattr(service, "pipeline_from", self)

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        assert self.go.wait(10), "the loop was kept from letting it go"
        self.inside -= 1
        return self._read(*arguments, **more)


def test_one_file_is_read_at_a_time_and_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)

    async def several() -> list[Any]:
        judge = Judge(Egress())
        asked = [asyncio.create_task(judge.judge(candidate())) for _ in range(3)]
        await wait_async(lambda: slow.inside, 5, "one is being read")
        slow.go.set()
        return await asyncio.gather(*asked)

    assert [verdict.valid for _, verdict in asyncio.run(several())] == [True] * 3
    assert slow.most == 1


def test_the_collector_of_spans_is_judged_as_a_sink_s_address_is() -> None:
    document = shown(make_config()) | {"tracing": {"endpoint": "http://127.0.0.1:4318"}}
    wanted = Candidate(document=document)

    assert problems(wanted) == [("tracing.endpoint", "URL_REFUSED")]
    _, verdict = asyncio.run(Judge(Egress(["127.0.0.1:4318"])).judge(wanted))
    assert verdict.valid


def test_who_waits_too_long_for_those_before_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(monkeypatch)
    monkeypatch.setattr(service, "READ_SECONDS", 0.05)
    try:
        with pytest.raises(TransientError) as caught:
            asyncio.run(Judge(Egress()).judge(candidate()))
    finally:
        slow.go.set()
    assert caught.value.code == "JUDGE_BUSY"


def test_addresses_beyond_the_limit_are_not_judged_and_not_taken() -> None:
    many = ["https://8.8.8.8/"] * (egress.MOST_URLS + 5)
    found = problems(candidate(*many))
    assert found == [(f"sinks[0].options.urls[{egress.MOST_URLS}]", "URL_NOT_JUDGED")]
    assert problems(candidate(*many[: egress.MOST_URLS])) == []


def test_all_names_of_a_file_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_host: str, _port: int) -> list[egress.IpAddress]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(egress, "_resolve", never)
    monkeypatch.setattr(egress, "JUDGE_SECONDS", 0.05)
    found = problems(candidate("http://user@8.8.8.8/", "https://a.example/", "https://b.example/"))
    assert found == [("sinks[0].options.urls[0]", "URL_REFUSED"), ("sinks[0].options.urls[1]", "URL_NOT_JUDGED")]
