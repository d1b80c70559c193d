"""Where a configuration may lead: the list of ways around such rules, each refused."""

import asyncio
import socket

import pytest

from tidegate_admin.security.egress import Egress, UrlRefusedError, urls_in

REFUSED = [
    "http://127.1/", "http://0/", "http://0x7f000001/", "http://2130706433/", "http://0177.0.0.1/", "http://127.0.0.1/",
    "http://[::]/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::7f00:1]/", "http://[2002:7f00:1::]/", "http://169.254.169.254/latest/meta-data",
    "http://[fd00::1]/", "http://[fe80::1%25eth0]/", "http://10.0.0.1/", "http://0.0.0.0/", "http://224.0.0.1/",
    "http://metadata.google.internal/", "http://localhost/", "http://LOCALHOST./", "http://127.0.0.1.nip.io/",
    "http://good.example@127.0.0.1/", "http://user:password@8.8.8.8/", "http://8.8.8.8#@evil/", "http://8.8.8.8\\@evil/",
    "unix:/var/run/docker.sock", "file:///etc/passwd", "gopher://8.8.8.8/", "ftp://8.8.8.8/", "//8.8.8.8/", "8.8.8.8",
    "http://8.8.8.8:22/", "http://8.8.8.8:6379/", "http://8.8.8.8:5432/", "http://8.8.8.8:0/", "http://8.8.8.8:99999/",
    "http://8.8.8.8/\r\nHost: evil", "http://8.8.8.8/\x00", "http://１２７.0.0.1/", "http:///path", "http://", "http://a..b/",
    "http://" + "a" * 300 + "/", "http://8.8.8.8/" + "a" * 3000,
]  # fmt: skip


def pin(url: str, *allowed: str) -> str:
    return str(asyncio.run(Egress(allowed).pin(url)).address)


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch):
    """Names resolve to what a test says: a real resolver is not asked."""

    def to(*addresses: str) -> None:
        def answer(*_: object, **__: object):
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (each, 0)) for each in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", answer)

    return to


@pytest.mark.parametrize("url", REFUSED)
def test_no_way_around_the_rules(resolves, url: str) -> None:
    resolves("127.0.0.1")
    with pytest.raises(UrlRefusedError) as error:
        pin(url)
    assert "password" not in str(error.value).replace("a user, a password", "")


def test_a_public_address_is_pinned() -> None:
    assert pin("https://8.8.8.8/hook?x=1") == "8.8.8.8"


def test_a_name_with_one_private_address_among_public_ones_is_refused(resolves) -> None:
    """So a name answers that says another thing at the second look."""
    resolves("8.8.8.8", "10.0.0.1")
    with pytest.raises(UrlRefusedError):
        pin("https://rebind.example/")
    resolves("8.8.8.8", "1.1.1.1")
    assert pin("https://fine.example/") == "8.8.8.8"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://10.1.2.3:9000/", "10.0.0.0/8"),
        ("http://10.1.2.3:9000/", "10.1.2.3:9000"),
        ("http://[fd00::1]:9000/", "fd00::/8"),
        ("http://[fd00::1]:9000/", "[fd00::1]:9000"),
    ],
)
def test_what_the_operator_allows_is_taken(url: str, allowed: str) -> None:
    assert pin(url, allowed)


def test_an_allowed_name_is_allowed_at_its_port_only(resolves) -> None:
    resolves("10.0.0.1")
    assert pin("http://hooks.internal:9000/", "hooks.internal:9000") == "10.0.0.1"
    with pytest.raises(UrlRefusedError):
        pin("http://hooks.internal:9001/", "hooks.internal:9000")


def test_urls_are_found_wherever_they_stand() -> None:
    options = {"url": "http://a/", "more": [{"x": " FILE:///b"}, "plain text", 7], "note": "see http://c"}
    assert dict(urls_in(options, "options")) == {"options.url": "http://a/", "options.more[0].x": " FILE:///b"}
