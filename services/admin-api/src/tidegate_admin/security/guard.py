"""Who comes in. Before anything of ours sees a request:

    host and origin → endpoint → token → scope → rate → body → (audit) the endpoint (audit)

Invariant: deny by default. A path that no listed endpoint serves, and an endpoint that names no scope, are refused to
callers without a token as everything else is, and what is refused has touched nothing.
"""

import base64
import binascii
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus

from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.clock import unix_microseconds
from tidegate_admin.errors import problem
from tidegate_admin.security import audit
from tidegate_admin.security.limits import MAX_BODY_BYTES, BodyRefusedError, Buckets, Limits, read_body, replayed
from tidegate_admin.security.origin import is_foreign, is_loopback_name
from tidegate_admin.security.scopes import Caller, Open, operation_id, scope_of
from tidegate_admin.security.scopes import Scope as Right
from tidegate_admin.security.tokens import TokenFile

CALLER = "tidegate.caller"
NEIGHBOUR = Caller("local", "loopback", frozenset({Right.READ, Right.DATA, Right.OPERATE}))
"""Who asks on loopback where there are no tokens. To destroy always takes one."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_JSON = "application/json"


class Refused(Exception):
    def __init__(self, status: HTTPStatus, code: str, detail: str, remedy: str, **headers: str) -> None:
        super().__init__(code)
        self._status, self._code, self._detail, self._remedy = status, code, detail, remedy
        self._headers = headers

    def answer(self, path: str) -> JSONResponse:
        return problem(
            self._status,
            code=self._code,
            detail=self._detail,
            remedy=self._remedy,
            instance=path,
            headers=self._headers,
        )


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        routes: Iterable[APIRoute],
        tokens: TokenFile | None,
        sink: audit.AuditSink,
        limits: Limits,
    ) -> None:
        self._app = app
        self._routes = tuple(routes)
        self._tokens = tokens
        self._sink = sink
        self._strangers = Buckets(limits.strangers)
        self._reads, self._changes = Buckets(limits.reads), Buckets(limits.changes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            route, caller = self._admit(scope, headers)
            body = await _body(scope, headers, receive)
        except Refused as refused:
            await refused.answer(scope["path"])(scope, receive, send)
            return
        scope[CALLER] = caller
        if route is None or scope["method"] in _SAFE:
            await self._app(scope, replayed(body, receive), send)
        else:
            await self._audited(route, caller, scope, replayed(body, receive), send)

    def _admit(self, scope: Scope, headers: Headers) -> tuple[APIRoute | None, Caller]:
        address = scope["client"][0] if scope.get("client") else "unknown"
        self._check_where_from(scope, headers)
        route = self._route(scope)
        right = scope_of(route.endpoint) if route else None
        if isinstance(right, Open):
            # To refuse costs as much as to answer, and has the service started anew for what others do.
            return None, Caller("probe", "probe", frozenset())
        caller = self._caller(headers)
        if caller is None:
            self._take(self._strangers, address)
            raise _unknown()
        self._take(self._reads if scope["method"] in _SAFE else self._changes, caller.id)
        if route is not None and (right is None or right not in caller.scopes):
            raise _too_weak(right)
        return route, caller

    def _check_where_from(self, scope: Scope, headers: Headers) -> None:
        if self._tokens is None and not is_loopback_name(headers.get("host", "")):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                "HOST_REFUSED",
                "without tokens this service answers to loopback's names only",
                "Ask for 127.0.0.1 or localhost, or give the service tokens.",
            )
        if is_foreign(headers, scope.get("scheme", "http")):
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "ORIGIN_REFUSED",
                "another web page made the browser ask",
                "Open this service's own page.",
            )

    def _route(self, scope: Scope) -> APIRoute | None:
        return next((route for route in self._routes if route.matches(scope)[0] is Match.FULL), None)

    def _caller(self, headers: Headers) -> Caller | None:
        if self._tokens is None:
            return NEIGHBOUR
        given = headers.getlist("authorization")
        return self._tokens.caller(_given_token(given[0])) if len(given) == 1 else None

    def _take(self, buckets: Buckets, key: str) -> None:
        wait = buckets.take(key)
        if wait:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "RATE_LIMITED",
                "too many requests",
                "Wait as long as Retry-After says; events by SSE spare most polling.",
                **{"Retry-After": str(int(wait) + 1)},
            )

    async def _audited(self, route: APIRoute, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        _, child = route.matches(scope)
        entry = audit.Entry(
            time=unix_microseconds(),
            operation=operation_id(route.name),
            path=scope["path"][:200],
            pipeline=child.get("path_params", {}).get("name"),
            caller=caller.name,
            caller_id=caller.id,
            address=scope["client"][0] if scope.get("client") else "unknown",
        )
        audit.begun(entry)
        status = 0

        async def seen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            await audit.ended(replace(entry, status=status or 500), self._sink)


async def _body(scope: Scope, headers: Headers, receive: Receive) -> bytes:
    """Whole, before anything looks at it: no endpoint here takes more than a configuration."""
    if scope["method"] in _SAFE:
        return b""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()) or int(length[:20]) > MAX_BODY_BYTES:
        raise _too_large()
    try:
        body = await read_body(receive)
    except BodyRefusedError as error:
        if error.status == HTTPStatus.REQUEST_TIMEOUT:
            raise Refused(
                HTTPStatus.REQUEST_TIMEOUT, "BODY_TIMEOUT", "the body did not come in time", "Send it at once."
            ) from None
        raise _too_large() from None
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if body and (kind != _JSON or headers.get("content-encoding", "identity").lower() != "identity"):
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "BODY_TYPE",
            "a body here is plain JSON",
            "Send Content-Type: application/json, not compressed.",
        )
    return body


def _too_large() -> Refused:
    return Refused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "BODY_TOO_LARGE",
        f"a body has at most {MAX_BODY_BYTES} bytes",
        "Send less.",
    )


def _unknown() -> Refused:
    return Refused(
        HTTPStatus.UNAUTHORIZED,
        "UNAUTHORIZED",
        "this needs a token",
        "Send Authorization: Bearer <token>; in a browser any user name with the token as password. "
        "`tidegate token create` makes one.",
        # Browsers take a line for one challenge: the one they know must stand alone.
        **{"WWW-Authenticate": 'Basic realm="tidegate", charset="UTF-8"'},
    )


def _too_weak(right: Right | None) -> Refused:
    return Refused(
        HTTPStatus.FORBIDDEN,
        "SCOPE_MISSING",
        f"this needs the scope {right or 'that nobody has'}",
        f"Use a token made with `tidegate token create NAME --scope {right or Right.READ}`.",
    )


def _given_token(header: str) -> str:
    """A browser cannot send a bearer for a page, so the token is also taken as the password of Basic."""
    scheme, _, value = header.partition(" ")
    match scheme.lower():
        case "bearer":
            return value.strip()
        case "basic":
            try:
                return base64.b64decode(value, validate=True).partition(b":")[2].decode("ascii")
            except (binascii.Error, UnicodeDecodeError):
                return ""
        case _:
            return ""
