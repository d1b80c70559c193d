"""What the sink's options accept."""

import pytest
from pydantic import ValidationError

from tidegate_processor.sinks.kafka_topics.config import CloudEventsMode, DeliveryGuarantee, KafkaTopicsOptions
from tidegate_processor.sinks.shared.event_options import EventEnvelope


def test_the_defaults_are_the_documented_ones() -> None:
    options = KafkaTopicsOptions()

    assert (
        options.topic,
        options.partitions,
        options.replication_factor,
        options.compression,
    ) == ("{pipeline}.{schema}.{table}", 1, None, "lz4")


@pytest.mark.parametrize("template", ["{database}.{table}", "a b", "", ".", "{table"])
def test_a_template_that_makes_no_topic_names_is_refused(template: str) -> None:
    with pytest.raises(ValidationError):
        KafkaTopicsOptions(topic=template)


def test_transactions_are_marked_only_where_they_are_seen_whole() -> None:
    topic = KafkaTopicsOptions(transaction_topic="shop.transactions").transaction_topic
    with pytest.raises(ValidationError, match="TRANSACTION_TOPIC_UNSURE"):
        KafkaTopicsOptions(transaction_topic="shop.transactions", delivery=DeliveryGuarantee.AT_LEAST_ONCE)

    assert topic == "shop.transactions"


def test_a_binary_mode_is_refused_where_there_is_none() -> None:
    mode = KafkaTopicsOptions(envelope=EventEnvelope.CLOUDEVENTS, cloudevents_mode=CloudEventsMode.BINARY)
    with pytest.raises(ValidationError, match="CLOUDEVENTS_MODE_UNUSED"):
        KafkaTopicsOptions(cloudevents_mode=CloudEventsMode.BINARY)

    assert mode.cloudevents_mode is CloudEventsMode.BINARY
