"""Which web page may make a browser call us: only our own.

Invariant: without tokens the service answers to loopback's names alone, so that no page reaches it by a name that was
made to resolve here; a request that says it comes from another origin is refused whatever it brings.
"""

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_loopback_name(host: str) -> bool:
    return is_loopback(_name(host))


def is_foreign(headers: Headers, scheme: str) -> bool:
    """Forwarded headers are not believed: anybody can send them."""
    origin, host = headers.get("origin"), headers.get("host", "")
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return headers.get("sec-fetch-mode") != "navigate" or origin is not None
    if origin is None:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return True
    # Behind a proxy that ends TLS the browser says https and we are asked by http: the host decides.
    return parts.scheme not in ("http", "https", scheme) or parts.netloc.lower() != host.lower()


def _name(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
