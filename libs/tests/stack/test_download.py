"""What has its final name is whole and is what was locked."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tidegate.errors import StreamError, TransientError
from tidegate.stack import jars
from tidegate.stack.download import Wanted, download

BODY = bytes(range(256)) * 4096


@dataclass
class Repository:
    """A web server with one file, and the manners the test gives it."""

    url: str = ""
    body: bytes = BODY
    knows_ranges: bool = True
    cut_first_at: int | None = None
    status: int = 200
    ranges: list[str | None] = field(default_factory=list)

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.ranges.append(asked)
        if self.status != 200:
            handler.send_error(self.status)
            return
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.knows_ranges else 0
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(self.body) - begin))
        handler.end_headers()
        end = self.cut_first_at if self.cut_first_at and len(self.ranges) == 1 else len(self.body)
        handler.wfile.write(self.body[begin:end])


@pytest.fixture
def repository() -> Iterator[Repository]:
    served = Repository()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.serve(self)

        def log_message(self, format: str, *arguments: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield served
        server.shutdown()
        thread.join()


@pytest.fixture
def wanted(repository, tmp_path) -> Wanted:
    digest = hashlib.sha256(BODY).hexdigest()
    return Wanted(f"{repository.url}/a.jar", tmp_path / "cache" / "a.jar", digest, len(BODY))


def test_a_file_arrives_whole(wanted):
    """And the progress adds up."""
    counted: list[int] = []
    download(wanted, counted.append)
    assert wanted.target.read_bytes() == BODY
    assert sum(counted) == len(BODY)
    assert [path.name for path in wanted.target.parent.iterdir()] == ["a.jar"]


def test_a_part_is_gone_on_with(repository, wanted):
    """What a run that was cut off has got is not asked for again."""
    wanted.target.parent.mkdir()
    wanted.target.with_name("a.jar.part").write_bytes(BODY[:1000])
    counted: list[int] = []
    download(wanted, counted.append)
    assert wanted.target.read_bytes() == BODY
    assert repository.ranges == ["bytes=1000-"]
    assert sum(counted) == len(BODY)


def test_an_answer_cut_short_is_gone_on_with(repository, wanted):
    """Within the same run too."""
    repository.cut_first_at = 4000
    counted: list[int] = []
    download(wanted, counted.append)
    assert wanted.target.read_bytes() == BODY
    assert repository.ranges == [None, "bytes=4000-"]
    assert sum(counted) == len(BODY)


def test_a_server_without_ranges_is_read_from_the_start(repository, wanted):
    """A whole answer never lands behind a part."""
    repository.knows_ranges = False
    wanted.target.parent.mkdir()
    wanted.target.with_name("a.jar.part").write_bytes(BODY[:1000])
    download(wanted)
    assert wanted.target.read_bytes() == BODY


@pytest.mark.parametrize("body", [BODY[:-1] + b"!", BODY + b"more"], ids=["other bytes", "longer"])
def test_a_wrong_checksum_is_refused(repository, wanted, body):
    """Nothing stands at the final place, and the next run starts afresh."""
    repository.body = body
    with pytest.raises(StreamError, match="DOWNLOAD_MISMATCH"):
        download(wanted)
    assert not list(wanted.target.parent.iterdir())


def test_a_rotten_part_is_found_out(wanted):
    """A part with wrong bytes costs one more run, never a wrong jar."""
    wanted.target.parent.mkdir()
    wanted.target.with_name("a.jar.part").write_bytes(b"rot" * 100)
    with pytest.raises(StreamError, match="DOWNLOAD_MISMATCH"):
        download(wanted)
    download(wanted)
    assert wanted.target.read_bytes() == BODY


def test_what_is_not_there_is_asked_for_once(repository, wanted):
    """404 does not change by asking again."""
    repository.status = 404
    with pytest.raises(TransientError, match="DOWNLOAD_FAILED"):
        download(wanted)
    assert len(repository.ranges) == 1


def test_a_server_error_is_asked_again_and_then_told(repository, wanted):
    """A bounded number of times."""
    repository.status = 503
    with pytest.raises(TransientError, match="503"):
        download(wanted)
    assert len(repository.ranges) == 4


def test_a_file_of_another_size_is_not_there(wanted):
    """A disk that filled up, or a file cut off by hand."""
    download(wanted)
    assert wanted.is_there
    assert not replace(wanted, size=wanted.size + 1).is_there


def test_a_jar_set_is_fetched_once_by_all_who_want_it(repository, wanted, tmp_path, monkeypatch):
    """Whoever comes second finds the files there."""
    lock = tmp_path / "jars.toml"
    jar = f'[[broker]]\ncoordinate = "org.example:a-jar:{{}}"\nsha256 = "{wanted.sha256}"\nsize = {wanted.size}\n'
    lock.write_text(jar.format("1.0") + jar.format("2.0"))
    monkeypatch.setenv("TIDEGATE_MAVEN_URL", repository.url)
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    found: list[list[object]] = []
    threads = [threading.Thread(target=lambda: found.append(jars.ensure("broker", lock=lock))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    folder = tmp_path / "cache" / "jars" / "org" / "example" / "a-jar"
    assert found == [[folder / "1.0" / "a-jar-1.0.jar", folder / "2.0" / "a-jar-2.0.jar"]] * 4
    assert len(repository.ranges) == 2


def test_the_lock_names_both_sets():
    """The broker's and the connector's jars, each with a checksum, none twice."""
    for jar_set in ("kafka", "spark"):
        wanted = list(jars.wanted_jars(jar_set))
        assert len({jar.target for jar in wanted}) == len(wanted) > 0
        assert all(len(jar.sha256) == 64 for jar in wanted)
