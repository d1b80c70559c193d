"""Whether there is anything to run lanes on: executors come late, or never, and Spark itself may give up.

Invariant: who waits for executors can be told to stop; an application that Spark has ended is never waited for, because
it does not come again by itself.
"""

import threading
from typing import Any

from pyspark.sql import SparkSession

from tidegate.errors import TransientError

_LOOK_SECONDS = 0.5


def are_elsewhere(session: SparkSession) -> bool:
    return not session.sparkContext.master.startswith("local[")


def await_executors(session: SparkSession, stop: threading.Event) -> bool:
    """False: it was told to stop meanwhile."""
    spark = context_of(session)
    while are_elsewhere(session) and count(spark) == 0:
        if stop.wait(_LOOK_SECONDS):
            return False
    return not stop.is_set()


def context_of(session: SparkSession) -> Any:
    """Spark's own context, which has no types."""
    return session.sparkContext._jsc.sc()


def count(spark: Any) -> int:
    if spark.isStopped():
        raise TransientError(
            "Spark has ended its application",
            code="SPARK_ENDED",
            remedy="Read the processor's log: executors could not be started, or died again and again.",
        )
    executors: int = spark.getExecutorMemoryStatus().size() - 1  # the driver is one of them
    return executors
