"""What brokers refuse, told apart: what no retry heals stops the lane; with anything else it starts at its cursor."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.error import KafkaError

from tidegate.errors import StreamError, TidegateError, TransientError

_FINAL = frozenset(
    (
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_REQUIRED_ACKS,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
    )
)


@contextmanager
def mapped(doing: str) -> Iterator[None]:
    """Whatever fails here, nothing is lost by giving up: it was not committed."""
    try:
        yield
    except KafkaException as error:
        raise refused(error.args[0], doing) from error


def is_final(error: KafkaError) -> bool:
    return error.code() in _FINAL


def refused(error: KafkaError, doing: str) -> TidegateError:
    if is_final(error):
        return StreamError(
            f"Kafka refuses the sink to {doing}: {error.name()}",
            code="SINK_KAFKA_REFUSED",
            remedy="No retry heals this: mend the user's rights, the brokers' policies or the sink's options, then "
            "restart the processor.",
        )
    return TransientError(
        f"Kafka did not let the sink {doing}: {error.name()}",
        code="SINK_KAFKA_UNAVAILABLE",
        remedy="Check the brokers, their topics' settings and the user's rights; the lane restarts at its cursor.",
    )
