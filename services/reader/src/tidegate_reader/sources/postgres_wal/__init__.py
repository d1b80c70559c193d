"""PostgreSQL's logical replication, read with libpq: preflight → publications → slots → stream."""
