"""Every topic, consumer group and Redis key that services share, named in one place."""


def raw_topic(pipeline: str) -> str:
    return f"tidegate.{pipeline}.raw"


def dead_letter_topic(pipeline: str) -> str:
    return f"tidegate.{pipeline}.dlq"


def scratch_topic(pipeline: str) -> str:
    """Where a real-time query's own output would go; the stage returns none."""
    return f"tidegate.{pipeline}.scratch"


def lane_group(pipeline: str, sink: str) -> str:
    return f"tidegate.{pipeline}.{sink}"


def lane_transactional_id(pipeline: str, sink: str) -> str:
    return f"tidegate.{pipeline}.{sink}"


def ack_key(pipeline: str, generation: str) -> str:
    """Hash: field = sink, value = sealed Ack."""
    return f"tidegate:{pipeline}:{generation}:ack"


def ack_channel(pipeline: str, generation: str) -> str:
    """Published with the sink's name whenever its ack has grown."""
    return f"tidegate:{pipeline}:{generation}:acked"


def lineage_key(pipeline: str) -> str:
    """The generation and epoch that the running reader works in: for people, nothing is decided by it."""
    return f"tidegate:{pipeline}:lineage"


def reader_status_key(pipeline: str) -> str:
    return f"tidegate:{pipeline}:reader"


def lane_status_key(pipeline: str, sink: str) -> str:
    return f"tidegate:{pipeline}:lane:{sink}"


def lane_control_key(pipeline: str, sink: str) -> str:
    return f"tidegate:{pipeline}:lane:{sink}:control"
