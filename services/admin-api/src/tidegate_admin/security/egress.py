"""Where a configuration may make us, or a sink, connect to: the rules against server-side request forgery.

A URL is taken apart once, its name is resolved once, and whoever connects uses the address that was judged, never the
name again: a second lookup may say something else. Redirects are not followed.

Invariant: what is not plainly a public http(s) address is refused, unless the operator's allow-list names it.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import Problem

RESOLVE_SECONDS = 2.0
MOST_URLS = 32
JUDGE_SECONDS = 5.0
"""For all URLs of a file together: each name may take `RESOLVE_SECONDS`."""
PORTS = frozenset({80, 443, 8080, 8443})

_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER_LIKE = re.compile(r"(0x[0-9a-f]*|[0-9]+)", re.ASCII)
_STRANGE = re.compile(r"[\x00-\x20\x7f\\]")
_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,20}:(//|/|\\)|unix:|file:|data:", re.ASCII)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class UrlRefusedError(ValueError):
    """Says why, without the URL: it may hold a password."""


@dataclass(frozen=True, slots=True)
class Pinned:
    scheme: str
    host: str
    """For the Host header and the certificate."""
    port: int
    address: IpAddress
    """What to connect to."""


@dataclass(frozen=True, slots=True)
class Egress:
    """`allowed`: host names, addresses or networks, each with an optional :port, that are taken besides public ones."""

    allowed: Sequence[str] = ()

    async def pin(self, url: str) -> Pinned:
        scheme, host, port = parse(url)
        is_named = self._names(host, port)
        if not is_named and port not in PORTS:
            raise UrlRefusedError(f"port {port} is none of {', '.join(map(str, sorted(PORTS)))}")
        addresses = await _resolve(host, port)
        for address in addresses:
            # One private address among public ones is how a rebinding name looks.
            if not is_named and not is_public(address) and not self._names(str(address), port):
                raise UrlRefusedError("it leads to an address that is not public")
        return Pinned(scheme, host, port, addresses[0])

    def _names(self, host: str, port: int) -> bool:
        return any(_matches(entry, host, port) for entry in self.allowed)


def parse(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL that is exactly what it looks like."""
    if _STRANGE.search(url) or not url.isascii() or len(url) > 2048:
        raise UrlRefusedError("it holds characters that a URL has only in escaped form")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UrlRefusedError("it is not a URL") from None
    if parts.scheme not in ("http", "https"):
        raise UrlRefusedError("only http and https are spoken")
    if "@" in parts.netloc or parts.fragment:
        raise UrlRefusedError("a user, a password or a fragment stands in it")
    host = (parts.hostname or "").removesuffix(".")
    if not _is_host(host) or port == 0:
        raise UrlRefusedError("its host is not written plainly")
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def is_public(address: IpAddress) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.scope_id:
            return False
    return address.is_global and not address.is_multicast


def urls_in(value: Any, path: str) -> Iterator[tuple[str, str]]:  # plain JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from urls_in(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from urls_in(inner, f"{path}[{index}]")
    elif isinstance(value, str) and _URL.match(value.lstrip()):
        yield path, value


async def url_problems(urls: Sequence[tuple[str, str]], egress: Egress) -> list[Problem]:
    """Of all URLs of a file, each with its path. One that is not judged is a problem too."""
    problems: list[Problem] = []
    path = ""
    try:
        async with asyncio.timeout(JUDGE_SECONDS):
            for path, url in urls[:MOST_URLS]:
                problem = await _problem(path, url, egress)
                problems += [problem] if problem else []
    except TimeoutError:
        problems.append(_not_judged(path, "its host and those before it took too long to resolve"))
    if len(urls) > MOST_URLS:
        problems.append(_not_judged(urls[MOST_URLS][0], f"a file may name {MOST_URLS} addresses"))
    return problems


def _not_judged(path: str, reason: str) -> Problem:
    return Problem(
        path,
        code="URL_NOT_JUDGED",
        reason=f"this address and those behind it were not judged: {reason}",
        remedy="Ask again; name fewer addresses, or names that resolve.",
    )


async def _problem(path: str, url: str, egress: Egress) -> Problem | None:
    try:
        await egress.pin(url)
    except UrlRefusedError as error:
        return Problem(
            path,
            code="URL_REFUSED",
            reason=f"this address is not connected to: {error}",
            remedy="Use a public https address, or let the operator allow it with --allow-url.",
        )
    return None


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        labels = host.split(".")
        # 127.1, 0x7f000001 and 2130706433 are addresses to the C library, and to nobody else.
        is_number = _NUMBER_LIKE.fullmatch(labels[-1]) is not None
        return 0 < len(host) <= 253 and not is_number and all(_LABEL.fullmatch(label) for label in labels)
    return "%" not in host


async def _resolve(host: str, port: int) -> list[IpAddress]:
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    try:
        async with asyncio.timeout(RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError, UnicodeError):
        raise UrlRefusedError("its host cannot be resolved") from None
    return [ipaddress.ip_address(each[4][0]) for each in found]


def _matches(entry: str, host: str, port: int) -> bool:
    name, wanted = entry.lower(), None
    head, separator, number = name.rpartition(":")
    if separator and number.isdigit() and (":" not in head or head.endswith("]")):
        name, wanted = head, int(number)
    name = name.strip("[]")
    if wanted not in (None, port):
        return False
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(name)
    except ValueError:
        return name == host
