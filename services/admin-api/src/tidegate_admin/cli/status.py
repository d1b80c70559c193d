"""`tidegate status`: the pipelines as a table, from the admin service or straight from where it looks itself."""

import asyncio
from pathlib import Path

from rich.table import Table

from tidegate.config.load import load_pipeline
from tidegate.config.pipeline import PipelineConfig
from tidegate.errors import ExitCode
from tidegate_admin.cli import output
from tidegate_admin.cli.client import Client
from tidegate_admin.config import SECRET_SECTIONS
from tidegate_admin.pipelines.schemas import LagModel, PipelineList, PipelineModel
from tidegate_admin.pipelines.watch import Watch
from tidegate_admin.ui.units import format_bytes, format_latency, format_seconds


def run(files: list[Path], url: str, token: str | None, *, as_json: bool) -> int:
    found = asyncio.run(look(files)) if files else ask(url, token)
    if as_json:
        output.json(found.model_dump(mode="json"))
    else:
        output.data().print(table(found.items))
    return ExitCode.CLEAN


async def look(files: list[Path]) -> PipelineList:
    configs: list[PipelineConfig] = [load_pipeline(file, secrets=SECRET_SECTIONS) for file in files]
    watch = Watch(configs)
    async with watch.running():
        items = [PipelineModel.of(view, watch.components(name)) for name, view in watch.views.items()]
    return PipelineList(items=items)


def ask(url: str, token: str | None) -> PipelineList:
    pages = Client(url, token).pages("/api/v1/pipelines")
    return PipelineList(items=[PipelineModel.model_validate(each) for each in pages])


def table(pipelines: list[PipelineModel]) -> Table:
    rows = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("PIPELINE", "PART", "STATE", "LSN", "OFFSET", "LAG", "BEHIND", "P99", "NOTE"):
        rows.add_column(name, no_wrap=name != "NOTE")
    for pipeline in pipelines:
        for row in _rows(pipeline):
            rows.add_row(*row)
    return rows


def _rows(pipeline: PipelineModel) -> list[tuple[str, ...]]:
    reader, slot = pipeline.reader, pipeline.slot
    notes = {name: component.reason for name, component in pipeline.components.items()}
    held = f"gate held by {pipeline.gate.holder}" if pipeline.gate.holder else notes.get("reader", "")
    rows: list[tuple[str, ...]] = [
        (
            pipeline.name, "reader", reader.state, reader.produced_lsn or "–", _number(reader.raw_offset),
            *_lag(pipeline.lag.read), "", held,
        )
    ]  # fmt: skip
    for lane in pipeline.lanes:
        note = notes.get(f"lane/{lane.sink}", "")
        kind = "" if lane.required else " (best effort)"
        rows.append(
            (
                "", f"lane {lane.sink}{kind}", lane.state, lane.acked_lsn or "–", _number(lane.acked_offset),
                *_lag(lane.lag), format_latency(lane.latency_p99_seconds), note,
            )
        )  # fmt: skip
    status = (slot.wal_status or "?") if slot else "unseen"
    wal = f"holds {format_bytes(slot.wal_held_bytes)} of WAL" if slot and slot.wal_held_bytes is not None else ""
    lsn = slot.confirmed_flush_lsn if slot else None
    note = " ".join(part for part in (wal, notes.get("slot", "")) if part)
    rows.append(("", "slot", status, lsn or "–", "", *_lag(pipeline.lag.confirm), "", note))
    return rows


def _lag(lag: LagModel | None) -> tuple[str, str]:
    return ("–", "–") if lag is None else (format_seconds(lag.seconds), format_bytes(lag.bytes))


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)
