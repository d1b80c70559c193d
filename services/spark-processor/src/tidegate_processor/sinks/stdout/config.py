"""Options of the `stdout` sink: those of events, no others."""

from tidegate_processor.sinks.shared.event_options import EventOptions

STDOUT_VARIABLE = "TIDEGATE_STDOUT"
"""Where the driver's standard output is: a worker's own one ends in the driver's log."""


class StdoutOptions(EventOptions):
    """What is written are events, one a line."""
