"""Every topic, consumer group and Redis key that services share, named in one place."""


def raw_topic(pipeline: str) -> str:
    """Topic of raw frames, one partition. Written by the reader, read by every lane."""
    return f"tidegate.{pipeline}.raw"


def dead_letter_topic(pipeline: str) -> str:
    """Topic of dead letters, kept without end. Written by lanes."""
    return f"tidegate.{pipeline}.dlq"


def schemas_topic(pipeline: str) -> str:
    """Compacted topic of the last shapes of relations. Written and read by the reader."""
    return f"tidegate.{pipeline}.schemas"


def scratch_topic(pipeline: str) -> str:
    """Topic where a real-time query's own output would go; the stage returns none."""
    return f"tidegate.{pipeline}.scratch"


def lane_group(pipeline: str, sink: str, writer: int = 0) -> str:
    """Consumer group that holds the cursor of a lane, or of one of its writers, as metadata of the committed offset. It
    has no members."""
    return _of_writer(f"tidegate.{pipeline}.{sink}", writer)


def lane_transactional_id(pipeline: str, sink: str, writer: int = 0) -> str:
    """Transactional id of the producer of a lane, or of one of its writers: who opens it fences who had it before."""
    return _of_writer(f"tidegate.{pipeline}.{sink}", writer)


def ack_key(pipeline: str, generation: str) -> str:
    """Hash: field = sink, value = sealed ack. Written by lanes, read by the reader."""
    return f"tidegate:{pipeline}:{generation}:ack"


def ack_channel(pipeline: str, generation: str) -> str:
    """Channel: the sink's name, published whenever its ack has grown. It only makes prompt what a poll finds too."""
    return f"tidegate:{pipeline}:{generation}:acked"


def lineage_key(pipeline: str) -> str:
    """Sealed lineage: where the running reader works. Written by the reader every second, read by it and by lanes."""
    return f"tidegate:{pipeline}:lineage"


def reader_status_key(pipeline: str) -> str:
    """The reader's status, every second."""
    return f"tidegate:{pipeline}:reader"


def lane_status_key(pipeline: str, sink: str) -> str:
    """A lane's status, every second."""
    return f"tidegate:{pipeline}:lane:{sink}"


def lane_control_key(pipeline: str, sink: str) -> str:
    """Sealed control value: what the driver asks of the lane's stage."""
    return f"tidegate:{pipeline}:lane:{sink}:control"


def lane_writer_status_key(pipeline: str, sink: str, writer: int) -> str:
    """The status of one writer of a lane that has several, every second. The lane's own is made of them."""
    return f"tidegate:{pipeline}:lane:{sink}:writer:{writer}"


def lane_arrivals_key(pipeline: str, sink: str) -> str:
    """Hash: field = writer of the lane, value = sealed arrival: at which offset it stands, all before being durable."""
    return f"tidegate:{pipeline}:lane:{sink}:arrivals"


def lane_acks_key(pipeline: str, generation: str, sink: str) -> str:
    """Hash: field = writer and count, value = sealed ack of this writer. The sink's ack is the least of them."""
    return f"tidegate:{pipeline}:lane:{sink}:acks:{generation}"


def lane_requests_key(pipeline: str, sink: str) -> str:
    """List: sealed requests to a lane, the oldest first. Written by the admin API, taken away by the lane's driver."""
    return f"tidegate:{pipeline}:lane:{sink}:requests"


def lane_outcome_key(pipeline: str, sink: str, request: str) -> str:
    """Sealed outcome of one request, kept for a day."""
    return f"tidegate:{pipeline}:lane:{sink}:outcome:{request}"


def lane_pause_key(pipeline: str, sink: str) -> str:
    """Sealed: whether the lane is to stand. Written by its driver."""
    return f"tidegate:{pipeline}:lane:{sink}:pause"


def audit_key(pipeline: str) -> str:
    """Stream: who changed what through the admin API, the newest entries. The log of the service has all of them."""
    return f"tidegate:{pipeline}:audit"


def snapshots_topic(pipeline: str) -> str:
    """Compacted topic of what was asked about snapshots and how far they are. Written and read by the reader."""
    return f"tidegate.{pipeline}.snapshots"


def snapshot_requests_key(pipeline: str) -> str:
    """List: sealed requests about snapshots, the oldest first. Written by the admin API, taken away by the reader."""
    return f"tidegate:{pipeline}:snapshot:requests"


def snapshot_outcome_key(pipeline: str, request: str) -> str:
    """Sealed outcome of one request about snapshots, kept for a day; as that of a request to a lane."""
    return f"tidegate:{pipeline}:snapshot:outcome:{request}"


def snapshots_key(pipeline: str) -> str:
    """Hash: field = snapshot, value = its status. Written by the reader."""
    return f"tidegate:{pipeline}:snapshots"


def snapshot_tables_key(pipeline: str, snapshot: str) -> str:
    """Hash: field = `schema.table`, value = how far that table is. Written by the reader, kept for a month."""
    return f"tidegate:{pipeline}:snapshot:{snapshot}:tables"


def every_key(pipeline: str) -> str:
    """Pattern of all keys of a pipeline: no two pipelines' overlap."""
    return f"tidegate:{pipeline}:*"


def _of_writer(name: str, writer: int) -> str:
    """The first one's is the lane's; no sink's name has a dot."""
    return f"{name}.{writer}" if writer else name
