"""How events look outside: pure functions from decoded changes to bytes, planned once per relation version."""
