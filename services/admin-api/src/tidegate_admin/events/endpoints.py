"""/api/v1/pipelines/{name}/events: changes as they come, by server-sent events.

Invariant: a client that takes nothing for `SEND_SECONDS` is ended, and there are never more streams of the service than
`STREAMS`: room is taken before the first wait, and given back when the answer has ended.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from tidegate.events import Operation
from tidegate_admin.deps import Given, Of
from tidegate_admin.errors import ApiError
from tidegate_admin.events.stream import Event, Wanted, follow
from tidegate_admin.security.scopes import Scope as Right
from tidegate_admin.security.scopes import needs

router = APIRouter(prefix="/api/v1/pipelines/{name}/events", tags=["events"])

SEND_SECONDS = 10.0
_ID = re.compile(r"([0-9]{1,18})\.(-1|[0-9]{1,9})", re.ASCII)


class EventStream(Response):
    media_type = "text/event-stream"

    def __init__(self, messages: AsyncIterator[str], release: Callable[[], None]) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._messages = messages
        self._release = release

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await self._serve(receive, send)
        finally:
            self._release()

    async def _serve(self, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send), name="events client")
        leaving = asyncio.create_task(_left(receive), name="events client leaves")
        try:
            ended, _ = await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending in ended:
                sending.result()  # a failure of ours is told in the log, not swallowed
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        try:
            async for text in self._messages:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            return
        finally:
            await self._messages.aclose()  # type: ignore[attr-defined]  # a generator


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@router.get(
    "",
    summary="Changes as they come, by server-sent events",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
@needs(Right.DATA)
async def stream_events(
    deps: Given,
    of: Of,
    table: Annotated[
        list[str] | None, Query(max_length=100, description="`schema.table` or `schema.*`; again for more.")
    ] = None,
    operation: Annotated[list[Operation] | None, Query(max_length=10, description="Again for more.")] = None,
    last_event_id: Annotated[str | None, Header(max_length=64, description="Go on behind this event.")] = None,
    after: Annotated[str | None, Query(max_length=64, description="As Last-Event-ID, for what cannot send it.")] = None,
) -> Response:
    resume = _resume(last_event_id or after)
    release = deps.streams.take()
    if release is None:
        raise ApiError(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{deps.streams.most} clients listen already",
            code="STREAMS_FULL",
            remedy="End some of them, or read the topics themselves.",
        )
    try:
        await of.raw.bounds()  # what cannot be read is refused before the stream begins
        return EventStream(follow(of.tail, resume, _filter(table, operation)), release)
    except BaseException:
        release()
        raise


def _resume(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = _ID.fullmatch(text)
    if match is None:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "this is no id of an event",
            code="EVENT_ID_INVALID",
            remedy="Give back the id of the last event, or none.",
        )
    return int(match[1]), int(match[2])


def _filter(tables: list[str] | None, operations: list[Operation] | None) -> Wanted:
    kinds = {each.value.lower() for each in operations or ()}
    exact = {each for each in tables or () if not each.endswith(".*")}
    schemas = tuple(each.removesuffix("*") for each in tables or () if each.endswith(".*"))

    def wanted(event: Event) -> bool:
        names = event.table.split(" ")
        is_table = not tables or any(name in exact or name.startswith(schemas) for name in (*names, event.table))
        return is_table and (not kinds or event.operation in kinds)

    return wanted
