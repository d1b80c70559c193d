"""Looks into the raw topic: headers page by page, one frame decoded.

Invariant: a frame is called void only when a frame of a newer epoch lies before it.
"""

from collections.abc import Sequence
from http import HTTPStatus
from itertools import islice

from tidegate.contracts.epoch import decode_epoch
from tidegate.contracts.frame import FrameHeader, FrameKind, decode_frame, decode_header
from tidegate.errors import DecodeError
from tidegate.lsn import parse_lsn
from tidegate_admin.access import PipelineAccess
from tidegate_admin.errors import ApiError
from tidegate_admin.frames import decoded
from tidegate_admin.frames.raw import Bounds, Record, TopicReader
from tidegate_admin.frames.schemas import FrameDetails, FrameList, FrameModel
from tidegate_admin.frames.search import find_lsn, find_xid
from tidegate_admin.paging import encode_cursor


async def list_frames(
    of: PipelineAccess, *, offset: int | None, lsn: str | None, xid: int | None, limit: int
) -> FrameList:
    bounds = await of.raw.bounds()
    start, known = await _start(of, bounds, offset, lsn, xid, limit)
    records = await _span(of.raw, start, min(bounds.end, start + limit), known)
    last = encode_cursor(records[-1].offset + 1) if records and records[-1].offset + 1 < bounds.end else None
    items = [_model(record, decode_header(record.value)) for record in records]
    return FrameList(beginning=bounds.beginning, end=bounds.end, items=items, next_cursor=last)


async def show_frame(of: PipelineAccess, offset: int, rows: int) -> FrameDetails:
    bounds = await of.raw.bounds()
    if not bounds.beginning <= offset < bounds.end:
        raise frame_unknown(bounds)
    records = await of.raw.read(offset, 1)
    if not records or records[0].offset != offset:
        raise frame_unknown(bounds)
    try:
        frame = decode_frame(records[0].value)
        changes = list(islice(decoded.changes(frame), rows + 1))
        said = decoded.body_of(frame)
    except DecodeError as error:
        raise _undecodable(error) from error
    model = _model(records[0], frame.header, await _is_void(of.raw, bounds, offset, frame.header))
    return FrameDetails(
        **model.model_dump(),
        tables=sorted({table for change in changes for table in change.tables}),
        said=said,
        rows=[change.to_json() for change in changes[:rows]],
        is_cut=len(changes) > rows,
    )


async def _start(
    of: PipelineAccess, bounds: Bounds, offset: int | None, lsn: str | None, xid: int | None, limit: int
) -> tuple[int, Sequence[Record]]:
    """And what has been read from there on."""
    if offset is not None:
        return min(max(offset, bounds.beginning), bounds.end), ()
    if lsn is None and xid is None:
        return max(bounds.beginning, bounds.end - limit), ()
    if lsn is not None:
        found = await find_lsn(of.raw, bounds, parse_lsn(lsn), of.known)
    else:
        found = await find_xid(of.raw, bounds, xid or 0, of.known)
    return (bounds.end, ()) if found is None else (found.offset, found.records)


async def _span(topic: TopicReader, start: int, end: int, known: Sequence[Record]) -> list[Record]:
    records = [record for record in known if record.offset < end]
    start = records[-1].offset + 1 if records else start
    while start < end:
        found = await topic.read(start, end - start)
        if not found:
            break
        records += found
        start = found[-1].offset + 1
    return records


async def _is_void(topic: TopicReader, bounds: Bounds, offset: int, header: FrameHeader) -> bool | None:
    """Walks the epochs back from the newest frame: each knows where its own epoch frame lies."""
    newest = await topic.read(bounds.end - 1, 1)
    if not newest:
        return None
    at = decode_header(newest[0].value)
    start = newest[0].offset if at.kind is FrameKind.EPOCH else at.epoch_offset
    while bounds.beginning <= start < bounds.end:
        if start <= offset:
            return header.epoch < at.epoch
        record = await topic.read(start, 1)
        frame = decode_frame(record[0].value) if record else None
        previous = decode_epoch(frame.body).previous if frame and frame.header.kind is FrameKind.EPOCH else None
        if previous is None:
            return None
        before = await topic.read(previous.epoch_offset, 1) if previous.epoch_offset >= bounds.beginning else []
        if not before:
            return None
        at, start = decode_header(before[0].value), previous.epoch_offset
    return None


def _model(record: Record, header: FrameHeader, is_void: bool | None = None) -> FrameModel:
    return FrameModel(
        offset=record.offset,
        written=record.time,
        bytes=len(record.value),
        is_void=is_void,
        **decoded.header_json(header),
    )


def frame_unknown(bounds: Bounds) -> ApiError:
    return ApiError(
        HTTPStatus.NOT_FOUND,
        f"the raw topic has the offsets {bounds.beginning} up to, and without, {bounds.end}",
        code="FRAME_UNKNOWN",
        remedy="What is older has been removed by retention; what is newer is not written yet.",
    )


def _undecodable(error: DecodeError) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, error.message, code=error.code, remedy=error.remedy)
