"""What kernels promise beside being right: compiled once, cached by source and processor, bounded in memory."""

import os
import shutil
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kit.made_frames import SYSTEM_ID, TEXTS, frame_of

from tidegate.columns import (
    begins,
    cast_arrays,
    cast_hstore,
    cast_kernels,
    compiled,
    copy_rows,
    events,
    gather,
    kernels,
    key_sets,
    rewrite_kernels,
    warm,
)
from tidegate.columns.batches import FrameDecoder
from tidegate.columns.cast_nested import cast_text
from tidegate.columns.casts import EXTENSIONS, cast_of
from tidegate.columns.envelopes import EventSource
from tidegate.columns.json_encode import EncodedFrame, FrameEncoder
from tidegate.columns.sampled import SampledScan
from tidegate.columns.typed import Caster
from tidegate.contracts.frame import Frame
from tidegate.lsn import Lsn
from tidegate.observability.trace_context import Sampler
from tidegate.pgoutput.messages import (
    Begin,
    Column,
    Commit,
    Insert,
    LogicalMessage,
    Origin,
    Relation,
    ReplicaIdentity,
    Truncate,
)
from tidegate.position import BEGINNING

SOURCE = EventSource("shop", "shopdb", SYSTEM_ID)
ORDERS = Relation(5, "public", "orders", ReplicaIdentity.DEFAULT, (Column(1, "id", 23, -1), Column(0, "note", 25, -1)))
KERNELS: list[Any] = [
    kernels.scan,
    kernels.arrange,
    events.encode,
    gather.gather,
    cast_kernels.cast_columns,
    cast_arrays.split_arrays,
    cast_hstore.split_hstore,
    copy_rows.rewrite,
    key_sets.note,
    key_sets.find,
    key_sets.settle,
    begins.find_begins,
    rewrite_kernels.rewrite,
]


def _encode(frame: Frame) -> EncodedFrame:
    return FrameEncoder(SOURCE, lambda schema, table, _: f"{schema}.{table}").encode(frame)


def _transaction(*rows: Any) -> Frame:
    return frame_of([ORDERS], [Begin(Lsn(9), 5, 7), *rows, Commit(Lsn(9), Lsn(9), 5)])


def test_after_warming_nothing_is_compiled_any_more() -> None:
    warm()
    before = [list(kernel.signatures) for kernel in KERNELS]
    assert [len(signatures) for signatures in before] == [1] * len(KERNELS)

    for text in TEXTS:
        _encode(_transaction(Insert(5, (b"1", text)), Truncate((5,), 1), Origin(Lsn(1), "x")))
    _encode(_transaction())
    assert len(SampledScan(Sampler(1.0)).of(_transaction(), BEGINNING)) == 1
    for batch in FrameDecoder(SOURCE).decode(
        _transaction(Insert(5, (b"1", None)), LogicalMessage(1, Lsn(1), "p", b"c"))
    ):
        assert Caster().cast(batch).rows.num_rows == 1
    for cast in (cast_of(1009, -1, {}), cast_of(3904, -1, {}), EXTENSIONS["hstore"], EXTENSIONS["vector"]):
        assert len(cast_text(pa.array([*TEXTS, None], pa.large_binary()), cast).values) == len(TEXTS) + 1

    assert before == [list(kernel.signatures) for kernel in KERNELS]


def test_warming_alone_is_enough() -> None:
    """In a process where nothing else has called a kernel."""
    names = [(kernel.py_func.__module__, kernel.py_func.__name__) for kernel in KERNELS]
    program = (
        "from importlib import import_module; from tidegate.columns import warm; warm();"
        f"print([name for module, name in {names!r} if len(getattr(import_module(module), name).signatures) != 1])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)

    assert done.stdout.strip() == "[]"


PACKAGE = Path(compiled.__file__).parent


def test_a_cache_depends_on_every_source_of_its_kernels_and_on_nothing_else() -> None:
    files = {path: path.read_text() for path in PACKAGE.glob("*.py")}
    sources = {path: compiled.sources(path) for path, text in files.items() if "\n@kernel" in text}

    assert {Path(kernel.py_func.__code__.co_filename) for kernel in KERNELS} <= sources.keys()
    for path, found in sources.items():
        assert {path, PACKAGE / "compiled.py"} <= found
    plain = {PACKAGE / f"{module}.py" for module in ("batches", "frames", "plans", "typed", "warm")}
    assert not plain & sources[PACKAGE / "events.py"]
    # Whatever is inlined somewhere is a source of some kernel; what a constant is taken from is one, too.
    assert {path for path, text in files.items() if "\n@inlined" in text} <= set().union(*sources.values())
    assert {PACKAGE.parent / each for each in ("events.py", "pgoutput/messages.py")} <= sources[PACKAGE / "events.py"]


def test_another_source_is_another_folder_of_the_kernels_made_from_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(PACKAGE.parent, tmp_path / "tidegate", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compiled, "_PACKAGES", tmp_path)

    def folders() -> list[str]:
        compiled.cache_folder.cache_clear()
        return [compiled.cache_folder(copy / f"columns/{each}.py").name for each in ("events", "cast_hstore")]

    before = folders()
    with (copy / "columns/values.py").open("a") as source:
        source.write("# another\n")

    events_folder, hstore_folder = folders()
    assert (events_folder != before[0], hstore_folder == before[1]) == (True, True)


def _hits(environment: dict[str, str]) -> str:
    """Of a kernel asked for by a process of its own."""
    program = (
        "import numpy as np; from tidegate.columns.kernels import arrange as a;"
        "z = lambda *shape: np.zeros(shape, np.int64); a(z(1, 11), z(1, 4), z(2), z(1));"
        "print(sum(a.stats.cache_hits.values()), sum(a.stats.cache_misses.values()))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True, timeout=100
    )
    return done.stdout.strip()


def test_a_cache_made_for_a_named_processor_is_found_by_that_name_alone(tmp_path: Path) -> None:
    generic = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_CPU_NAME": "generic"}

    assert [_hits(generic), _hits(generic)] == ["0 1", "1 0"]
    assert _hits(generic | {"NUMBA_CPU_NAME": "x86-64-v2" if os.uname().machine == "x86_64" else "cortex-a53"}) == "0 1"


@pytest.mark.parametrize(
    "text", [b"\x01" * 250_000, b"\xff" * 250_000, b'"' * 250_000, b"{" * 250_000, b"\\" * 250_000]
)
@pytest.mark.parametrize("type_oid", [25, 17, 3802, 1009, 1700])
def test_a_hostile_value_costs_bounded_memory(text: bytes, type_oid: int) -> None:
    columns = (Column(1, "id", 23, -1), Column(0, "note", type_oid, -1))
    relation = replace(ORDERS, columns=columns)
    frame = frame_of([relation], [Begin(Lsn(9), 5, 7), Insert(5, (b"1", text))])
    warm()
    tracemalloc.start()
    try:
        encoded = _encode(frame)
        held = sum(int(each.value_bytes) for each in encoded.topics)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # Addresses, not pages: a buffer for the worst case is reserved, and touched only as far as it is written.
    assert peak < 40 * len(text)
    assert held < 6.1 * len(text)


@pytest.mark.parametrize(
    "message",
    [Truncate((5,) * 30_000, 0), Origin(Lsn(1), "x" * 100_000), LogicalMessage(1, Lsn(1), "é" * 50_000, b"x" * 50_000)],
    ids=["truncate", "origin", "message"],
)
def test_large_messages_of_other_kinds_pass(message: Any) -> None:
    encoded = _encode(_transaction(message, Insert(5, (b"1", None))))

    assert encoded.events == 1 + 30_000 * isinstance(message, Truncate)


def test_what_does_not_fit_the_expected_buffer_makes_it_grow() -> None:
    rows = [Insert(5, (b"%d" % at, b"\x01" * 300)) for at in range(3_000)]

    (encoded,) = _encode(_transaction(*rows)).topics

    notes = {value.count(b"\\u0001") for _, value in encoded}
    assert (len(encoded), notes) == (3_000, {300})
    assert [(partition, len(run)) for partition, run in encoded.runs()] == [(-1, 3_000)]
