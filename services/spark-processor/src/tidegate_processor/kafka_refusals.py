"""What brokers refuse, told apart: what no retry heals stops the lane; with anything else it starts at its cursor.

A right that is missing is for a person to give, and the lane comes again until it is there: nothing is lost meanwhile,
and nobody has to start the lane once it is given.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.error import KafkaError

from tidegate.errors import StreamError, TidegateError, TransientError

_FINAL = frozenset(
    (
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
    )
)
_DENIED = frozenset(
    (
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    )
)


@contextmanager
def mapped(doing: str) -> Iterator[None]:
    """Whatever fails here, nothing is lost by giving up: it was not committed."""
    try:
        yield
    except KafkaException as error:
        raise refused(error.args[0], doing) from error


def is_for_a_person(error: KafkaError) -> bool:
    """Waiting for a moment changes nothing."""
    return error.code() in _FINAL | _DENIED


def refused(error: KafkaError, doing: str) -> TidegateError:
    if error.code() in _FINAL:
        return StreamError(
            f"Kafka refuses the sink to {doing}: {error.name()}",
            code="SINK_KAFKA_REFUSED",
            remedy="No retry heals this: mend the brokers' policies, the topic's settings or the sink's options, then "
            "restart the processor, which asks for the settings anew.",
        )
    if error.code() in _DENIED:
        return TransientError(
            f"Kafka denies the sink the right to {doing}: {error.name()}",
            code="SINK_KAFKA_DENIED",
            remedy="Give the user its rights to the sink's topics, its consumer group and its transactional id, or "
            "mend the login; the lane comes again by itself and goes on at its cursor.",
        )
    if error.code() == KafkaError.INVALID_TIMESTAMP:
        return TransientError(
            f"Kafka does not let the sink {doing}: this machine's clock is too far from the brokers'",
            code="SINK_CLOCK_WRONG",
            remedy="Set the clock, or the topics' message.timestamp.type=LogAppendTime, which those have that the sink "
            "creates; the lane comes again by itself and goes on at its cursor.",
        )
    return TransientError(
        f"Kafka did not let the sink {doing}: {error.name()}",
        code="SINK_KAFKA_UNAVAILABLE",
        remedy="Check the brokers, and their topics' settings; the lane restarts at its cursor.",
    )
