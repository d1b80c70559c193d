"""What endpoints are given: the watch, the settings, and who may ask.

Invariant: deny by default. With a token set everything but the two probes asks for it, compared in constant time;
without one the service is bound to loopback and answers only to loopback's own names, so that no web page reaches it
by a name that resolves here.
"""

import base64
import binascii
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request

from tidegate_admin.config import AdminSettings, is_loopback
from tidegate_admin.errors import ApiError
from tidegate_admin.metrics import AdminMetrics
from tidegate_admin.pipelines.watch import Watch


@dataclass(frozen=True, slots=True)
class Deps:
    settings: AdminSettings
    watch: Watch
    metrics: AdminMetrics


def _deps(request: Request) -> Deps:
    deps: Deps = request.app.state.deps
    return deps


Given = Annotated[Deps, Depends(_deps)]


def allowed(request: Request, deps: Given) -> None:
    """A browser cannot send a bearer for a page, so the token is also taken as the password of Basic."""
    token = deps.settings.token
    if token is None:
        _from_here(request)
    elif not secrets.compare_digest(_given_token(request.headers.get("authorization", "")), token.encode()):
        raise ApiError(
            HTTPStatus.UNAUTHORIZED,
            "this needs the service's token",
            code="UNAUTHORIZED",
            remedy="Send Authorization: Bearer <token>; in a browser any user name with the token as password.",
        )


def _from_here(request: Request) -> None:
    host = request.headers.get("host", "")
    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    if not is_loopback(name):
        raise ApiError(
            HTTPStatus.MISDIRECTED_REQUEST,
            "without a token this service answers to loopback's names only",
            code="HOST_REFUSED",
            remedy="Ask for 127.0.0.1 or localhost, or set TIDEGATE_ADMIN_TOKEN.",
        )


def _given_token(header: str) -> bytes:
    scheme, _, value = header.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip().encode()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).partition(b":")[2]
            except binascii.Error:
                return b""
        case _:
            return b""
