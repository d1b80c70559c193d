"""The pgoutput protocol without any IO: envelopes, messages, who may follow whom, and what relations look like."""

from tidegate.pgoutput.decode import decode_message
from tidegate.pgoutput.encode import encode_message
from tidegate.pgoutput.relations import RelationMap, schema_version
from tidegate.pgoutput.wire import Keepalive, XLogData, decode_envelope, encode_status

__all__ = [
    "Keepalive",
    "RelationMap",
    "XLogData",
    "decode_envelope",
    "decode_message",
    "encode_message",
    "encode_status",
    "schema_version",
]
