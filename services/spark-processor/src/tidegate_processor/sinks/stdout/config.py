"""Options of the `stdout` sink: none."""

from tidegate.config.base import Model

STDOUT_VARIABLE = "TIDEGATE_STDOUT"
"""Where the driver's standard output is: a worker's own one ends in the driver's log."""


class StdoutOptions(Model):
    """What is written are the events of docs/reference/event.md, one a line."""
