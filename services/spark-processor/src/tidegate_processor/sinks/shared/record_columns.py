"""Events on their way to the client as they stand in the kernels' buffer, without an object for each.

`Producer.produce_batch` takes a dict a record: 1.1 us of a thread, where librdkafka itself needs 0.4. Its own call for
many records takes an array of `rd_kafka_message_t`, addresses and lengths, and copies what they point at.

Invariant: an address leaves this file inside that call only, while what it points at is held.
"""

import ctypes
from typing import Final

import numpy as np
from confluent_kafka import KafkaException, Producer, cimpl
from confluent_kafka.error import KafkaError

from tidegate.columns import layout
from tidegate.columns.json_encode import TopicEvents, Written

# rd_kafka_message_t in words of 64 bits, as rdkafka.h has it: error, topic, partition, these four, offset, private.
_WORDS: Final = 9
_BYTES: Final = 8 * _WORDS
_ERROR: Final = 0
_KEY: Final = slice(5, 7)
_ADDRESSES_AND_LENGTHS: Final = slice(3, 7)
_FIELDS: Final = [layout.VALUE_AT, layout.VALUE_LENGTH, layout.KEY_AT, layout.KEY_LENGTH]
_COPY: Final = 2
_PRODUCER: Final = 0
_NONE: Final = np.zeros((0, _WORDS), np.int64)

# Whichever librdkafka the client itself was linked with.
_library = ctypes.CDLL(cimpl.__file__)
_type = _library.rd_kafka_type
_type.argtypes = (ctypes.c_void_p,)
_new_topic = _library.rd_kafka_topic_new
_new_topic.argtypes, _new_topic.restype = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.c_void_p
_destroy_topic = _library.rd_kafka_topic_destroy
_destroy_topic.argtypes, _destroy_topic.restype = (ctypes.c_void_p,), None
_produce = _library.rd_kafka_produce_batch
_produce.argtypes = (ctypes.c_void_p, ctypes.c_int32, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class RecordColumns:
    """Of one producer. Whatever the brokers refuse later fails the transaction: nobody is told record by record."""

    def __init__(self, producer: Producer) -> None:
        # The first field behind those of every Python object; `Producer` has no other way to it.
        self._handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
        if self._handle is None or _type(self._handle) != _PRODUCER:
            raise RuntimeError("this confluent_kafka keeps its librdkafka handle elsewhere")
        self._producer = producer  # the handle lives as long
        self._topics: dict[str, int] = {}
        self._written: Written | None = None
        self._messages, self._address = _NONE, 0

    def produce(self, topic: str, partition: int, events: TopicEvents, begin: int = 0) -> int:
        """Those from `begin` on, in order; how many the client's queue had room for."""
        if self._written is not events.written:  # made once for all topics of a frame: it may have a thousand
            self._written, self._messages = events.written, _messages(events.written)
            self._address = self._messages.ctypes.data
        first, wanted = events.begin + begin, len(events) - begin
        taken = int(_produce(self._topic(topic), partition, _COPY, self._address + first * _BYTES, wanted))
        if taken < wanted:
            error = int(self._messages[first + taken, _ERROR : _ERROR + 1].view(np.int32)[0])
            if error != KafkaError._QUEUE_FULL:
                raise KafkaException(KafkaError(error))
        return taken

    def forget(self) -> None:
        """The last frame's memory."""
        self._written, self._messages, self._address = None, _NONE, 0

    def close(self) -> None:
        """Before the producer: it waits for its topics."""
        while self._topics:
            _destroy_topic(self._topics.popitem()[1])

    def _topic(self, name: str) -> int:
        if name not in self._topics:  # the client looks through all that it has
            topic = _new_topic(self._handle, name.encode(), None)
            if topic is None:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
            self._topics[name] = topic
        return self._topics[name]


def _messages(written: Written) -> np.ndarray:
    messages = np.zeros((len(written.places), _WORDS), np.int64)
    address = written.buffer.ctypes.data
    messages[:, _ADDRESSES_AND_LENGTHS] = written.places[:, _FIELDS] + np.array([address, 0, address, 0])
    messages[written.places[:, layout.KEY_LENGTH] < 0, _KEY] = 0
    return messages
