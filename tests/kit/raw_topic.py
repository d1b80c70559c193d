"""What the reader's tests ask of the raw topic and of its broker."""

import asyncio
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient

from tidegate.pgoutput.messages import Insert


def inserted(fleet: Any) -> list[str]:
    """The second column of every inserted row, in order, by the words of the format."""
    return [each.new[1].decode() for each in fleet.messages() if isinstance(each, Insert)]


def administer(bootstrap: str, call: str, argument: object) -> None:
    """One call of Kafka's admin client."""
    asyncio.run(_administer(bootstrap, call, argument))


async def _administer(bootstrap: str, call: str, argument: object) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await admin.start()
        await getattr(admin, call)(argument)
    finally:
        await admin.close()
