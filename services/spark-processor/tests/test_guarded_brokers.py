"""A whole processor at brokers that insist on TLS: its own clients get in, and Spark's do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.fed_processor import fed_processor, numbers
from kit.guarded_kafka import Broker, guarded_broker
from kit.topics import inbox

from tidegate.config.kafka import KafkaConfig
from tidegate.errors import TransientError
from tidegate_processor.kafka_clients import spark_options

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with guarded_broker(tmp_path_factory.mktemp("guarded-kafka")) as broker:
        yield broker


@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "certificate"])
def test_a_lane_delivers_at_brokers_that_insist_on(
    way: str, broker: Broker, redis: Any, prefix: str, tmp_path: Path
) -> None:
    secret = "plain-secret" if way == "PLAIN" else "scram-secret"
    reached_by = broker.certified(prefix) if way == "certificate" else broker.login(way, ca=str(broker.ca.ca))
    servers = {"kafka": broker.server.bootstrap, "redis_url": redis.url}
    with fed_processor(prefix, tmp_path, **servers, environ={"KAFKA_SECRET": secret}, reached_by=reached_by) as fed:
        fed.rows(1, 2)
        fed.processor.start()
        with inbox(fed.bootstrap, fed.orders) as box:
            assert numbers(box, 2) == [1, 2]
        log = fed.processor.log()
        assert not any(each in log for each in (secret, "PRIVATE KEY"))


def test_a_key_that_java_does_not_take_is_told_with_how_to_mend_it(broker: Broker) -> None:
    reached_by = broker.certified("old")
    key = Path(reached_by["security"]["key"])
    key.write_text(key.read_text().replace("PRIVATE KEY", "RSA PRIVATE KEY"))
    config = KafkaConfig.model_validate_json(json.dumps(reached_by))
    with pytest.raises(TransientError) as raised:
        spark_options(config)
    assert (raised.value.code, "openssl pkcs8" in raised.value.remedy) == ("KAFKA_KEY_FORMAT", True)
