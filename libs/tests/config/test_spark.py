"""Settings of Spark: secrets among them stay where they are until Spark is given them."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from tidegate.config.spark import SparkSettings, revealed

ADAPTER: TypeAdapter[dict[str, str]] = TypeAdapter(SparkSettings)


def test_a_secret_is_shown_by_where_it_is_and_revealed_to_spark_alone(tmp_path: Any) -> None:
    (tmp_path / "key").write_text("hunter3\n")
    settings = ADAPTER.validate_python(
        {
            "spark.authenticate.secret": "${env:SPARK_SECRET}",
            "spark.hadoop.fs.s3a.secret.key": f"${{file:{tmp_path}/key}}",
            "spark.executor.cores": "2",
        }
    )

    assert "hunter" not in repr(settings) + ADAPTER.dump_json(settings).decode()
    assert revealed(settings, {"SPARK_SECRET": "hunter2"}) == {
        "spark.authenticate.secret": "hunter2",
        "spark.hadoop.fs.s3a.secret.key": "hunter3",
        "spark.executor.cores": "2",
    }


@pytest.mark.parametrize("name", ["spark.authenticate.secret.file", "spark.kubernetes.authenticate.oauthTokenFile"])
def test_a_name_that_only_says_where_a_secret_is_takes_a_path(name: str) -> None:
    assert ADAPTER.validate_python({name: "/run/secrets/x"}) == {name: "/run/secrets/x"}
