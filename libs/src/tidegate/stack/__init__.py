"""The embedded default: real PostgreSQL, Kafka and Redis as child processes, and a supervisor for the fleet.

Linux only. Invariant: whatever is started here ends with its parent, or is ended by the next start in the same
directory.
"""
