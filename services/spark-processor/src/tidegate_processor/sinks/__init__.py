"""The destinations: one folder each, all of one shape (`base.py` is the contract)."""
