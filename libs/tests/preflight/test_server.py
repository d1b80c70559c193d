"""What the preflight makes of a server's facts, one case a line."""

import pytest

from tidegate.preflight.findings import Severity
from tidegate.preflight.server import ServerFacts, judge_server

GOOD = {"wal_level": "logical", "max_slot_wal_keep_size": "10240", "hot_standby_feedback": "on"}
CASES = [
    (ServerFacts(180_004, GOOD), {}),
    (ServerFacts(90_624, {"wal_level": "logical"}), {"SERVER_TOO_OLD": Severity.REFUSAL}),
    (ServerFacts(100_023, {"wal_level": "logical"}), {"SERVER_UNSUPPORTED": Severity.CAUTION}),
    (
        ServerFacts(140_018, GOOD),
        {"SERVER_UNSUPPORTED": Severity.CAUTION, "SERVER_MINOR": Severity.CAUTION},
    ),
    (ServerFacts(150_013, GOOD), {"SERVER_MINOR": Severity.CAUTION}),
    (ServerFacts(150_014, GOOD), {}),
    (ServerFacts(160_010, GOOD), {}),
    (ServerFacts(170_005, GOOD), {"SERVER_MINOR": Severity.CAUTION}),
    (ServerFacts(180_004, GOOD | {"wal_level": "replica"}), {"WAL_LEVEL": Severity.REFUSAL}),
    (ServerFacts(150_019, GOOD, is_standby=True), {"SERVER_STANDBY": Severity.REFUSAL}),
    (ServerFacts(160_015, GOOD, is_standby=True), {"SERVER_IS_STANDBY": Severity.CAUTION}),
    (
        ServerFacts(160_015, GOOD | {"hot_standby_feedback": "off"}, is_standby=True),
        {"SERVER_IS_STANDBY": Severity.CAUTION, "STANDBY_FEEDBACK": Severity.CAUTION},
    ),
    (ServerFacts(180_004, GOOD | {"max_slot_wal_keep_size": "-1"}), {"SLOT_WAL_UNLIMITED": Severity.CAUTION}),
    (ServerFacts(180_004, GOOD | {"max_slot_wal_keep_size": "64"}), {"SLOT_WAL_SMALL": Severity.CAUTION}),
    (ServerFacts(180_004, GOOD | {"idle_replication_slot_timeout": "60"}), {"SLOT_IDLE_TIMEOUT": Severity.CAUTION}),
    (ServerFacts(180_004, GOOD, backend_pid=7, announced_pid=8), {"POOLER": Severity.CAUTION}),
]


@pytest.mark.parametrize(("facts", "expected"), CASES, ids=lambda case: "-".join(case) if type(case) is dict else None)
def test_a_server_is_judged(facts: ServerFacts, expected: dict[str, Severity]) -> None:
    assert expected == {each.code: each.severity for each in judge_server(facts)}


@pytest.mark.parametrize(("facts", "expected"), CASES)
def test_every_finding_says_what_to_do(facts: ServerFacts, expected: dict[str, Severity]) -> None:
    assert all(each.cause and each.remedy and each.path for each in judge_server(facts))
