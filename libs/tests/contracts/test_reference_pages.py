"""The pages in docs/reference say what the code does, byte by byte and member by member."""

import json
import re
import struct
from pathlib import Path

import pytest
from kit.contract_examples import FOLDER
from kit.epoch_examples import GAP, STEP

ROOT = Path(__file__).parents[3]
FRAME_PAGE = (ROOT / "docs/reference/frame.md").read_text(encoding="utf-8")
CONTRACTS_PAGE = (ROOT / "docs/reference/contracts.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| ([\w.]+) \|", re.MULTILINE)
DUMPED = re.compile(r"^ *(\d+)  ((?:[0-9a-f]{2} ?)+?)(?:  |$)", re.MULTILINE)
MEMBER = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def test_the_worked_example_is_the_golden_file() -> None:
    golden = (FOLDER / "frame-v1-wal.bin").read_bytes()
    dumped = b""
    for at, digits in DUMPED.findall(FRAME_PAGE):
        assert int(at) == len(dumped)
        dumped += bytes.fromhex(digits)
    assert dumped == golden


def test_the_table_of_the_header_is_its_layout() -> None:
    """Each row begins where the one before it ends, and every field of the widest frame is found by it."""
    rows = ROW.findall(FRAME_PAGE)
    at = 0
    for offset, kind, _ in rows:
        assert int(offset) == at
        at += struct.calcsize(f">{kind}")
    assert at == 184
    widest = (FOLDER / "frame-v1-widest.bin").read_bytes()
    fields = {name: struct.unpack_from(f">{kind}", widest, int(offset))[0] for offset, kind, name in rows}
    assert fields["magic"] == b"TGFR"
    assert fields["epoch_offset"] == 2**64 - 2
    assert fields["last.ordinal"] == 2**63 - 1
    assert fields["open.commit_time"] == -(2**63)
    assert fields["parts"] == 2**32 - 1
    assert fields["nonce"] == b"\xff" * 16


@pytest.mark.parametrize(
    ("heading", "document"),
    [
        ("Ack", "ack.json ack-refusing.json"),
        ("Cursor", "cursor-rewound.json cursor-rewound-epoch.json cursor-writers.json cursor-refusing.json"),
        ("Control", "control.json"),
        ("Lineage", "lineage-failover.json lineage-options.json"),
        ("Dead letter", "dead-letter-v1-transaction.json"),
        ("Resolution", "resolution-v1-replayed.json"),
        ("Lane request", "lane-request-since.json lane-request-offset.json lane-request-replay.json"),
        ("Lane outcome", "lane-outcome-replay.json"),
        ("Lane pause", "lane-pause.json"),
        ("Snapshot request", "snapshot-request.json snapshot-request-pause.json"),
        ("Snapshot status", "snapshot-status.json"),
        ("Snapshot table status", "snapshot-table-status.json"),
        ("Epoch", "frame-v1-epoch-failover.bin frame-v1-epoch-gap.bin frame-v1-epoch-options.bin"),
        ("Mark", "frame-v1-mark.bin"),
    ],
)
def test_every_member_stands_on_the_page_and_no_other(heading: str, document: str) -> None:
    """Some members are only in some documents."""
    assert set(MEMBER.findall(_section(heading))) == set().union(*map(members, document.split()))


def test_every_member_of_a_branch_stands_on_the_page_and_no_other() -> None:
    assert set(MEMBER.findall(_section("Branch"))) == set(STEP.to_json())


def test_every_member_of_a_gap_stands_on_the_page_and_no_other() -> None:
    assert set(MEMBER.findall(_section("Gap"))) == set(GAP.to_json())


def test_every_member_of_a_status_stands_on_the_page_and_no_other() -> None:
    both, reader, lane = re.split(r"^The reader's|^A lane's", _section("Status"), flags=re.MULTILINE)
    shared = set(MEMBER.findall(both))
    assert shared | set(MEMBER.findall(reader)) == members("reader-status.json")
    assert shared | set(MEMBER.findall(lane)) == members("lane-status.json")


def members(document: str) -> set[str]:
    content = (FOLDER / document).read_bytes()
    if document.endswith(".bin"):
        content = content[content.index(b'{"') : content.rindex(b"}") + 1]
    return set(json.loads(content)) - {"checksum"}


def _section(heading: str) -> str:
    return CONTRACTS_PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
