"""What services expose over HTTP, as somebody asks who operates them."""

import re
from urllib.request import urlopen

SECONDS = 10


def told(http: str, path: str) -> str:
    with urlopen(f"http://{http}{path}", timeout=SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def lanes_of(http: str) -> set[str]:
    """By sink, as the service's metrics show them."""
    return set(re.findall(r'_lane_lag_seconds\{[^}]*sink="([^"]+)"', told(http, "/metrics")))
