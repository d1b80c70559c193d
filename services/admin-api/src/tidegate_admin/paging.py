"""Lists in pages: a cursor is where the page before ended, so that entries that come and go skip and repeat nothing."""

import base64
import binascii
import json
from http import HTTPStatus
from typing import Annotated

from fastapi import Query

from tidegate_admin.errors import ApiError

MAX_LIMIT = 500

Cursor = Annotated[
    str | None, Query(max_length=1024, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the page before.")
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Entries of a page, at most.")]


def encode_cursor(*last: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(last, separators=(",", ":")).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, *kinds: type[str] | type[int]) -> tuple[str | int, ...]:
    """Raises a problem for anything that is not one of ours; nothing in it is trusted."""
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode())
        if isinstance(values, list) and [type(value) for value in values] == list(kinds):
            return tuple(_checked(value) for value in values)
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise ApiError(
        HTTPStatus.BAD_REQUEST,
        "this cursor was not given by this list",
        code="CURSOR_INVALID",
        remedy="Take next_cursor from the page before, or begin without a cursor.",
    )


def _checked(value: str | int) -> str | int:
    """What every server takes as a parameter."""
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise ValueError("too large")
    elif "\0" in value or not value.encode():
        raise ValueError("not a name")
    return value


def text_cursor(cursor: str | None) -> str:
    """Of a list in the order of one text; "" is before all of them."""
    return "" if cursor is None else str(decode_cursor(cursor, str)[0])
