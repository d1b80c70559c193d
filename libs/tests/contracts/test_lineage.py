"""The lineage grew a member; what an older reader said is still understood."""

from dataclasses import replace

from kit.epoch_examples import LINEAGE

from tidegate.contracts.lineage import decode_lineage
from tidegate.contracts.sealed import seal, unseal


def test_one_that_says_no_options_is_read() -> None:
    document = unseal(LINEAGE.encode())
    del document["options"]
    assert decode_lineage(seal(document)) == replace(LINEAGE, options=None)
    assert decode_lineage(LINEAGE.encode()) == LINEAGE
