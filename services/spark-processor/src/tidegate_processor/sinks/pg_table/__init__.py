"""Rows of the source's tables as rows of a PostgreSQL's tables, each change exactly once."""
