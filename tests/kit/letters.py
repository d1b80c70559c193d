"""Dead letters as a lane writes them."""

import hashlib
from typing import Any

from kit.frames import GENERATION, ORDERS, row

from tidegate.contracts.dead_letter import DeadLetter, FrameAddress
from tidegate.lsn import Lsn
from tidegate.pgoutput.encode import encode_message
from tidegate.position import Position


def make_letter(number: int, **fields: Any) -> DeadLetter:
    told = {
        "id": hashlib.blake2b(str(number).encode(), digest_size=16).hexdigest(),
        "pipeline": "shop",
        "lane": "events",
        "generation": GENERATION.id,
        "frame": FrameAddress("topic", 3, 1, 2),
        "position": Position(Lsn(0x1000 + number), 0),
        "channel": "public.orders",
        "operation": "INSERT",
        "code": "VALUE_NOT_UTF8",
        "message": "a value in public.orders that is not UTF-8",
        "remedy": "Mend it at the source.",
        "time": 1_800_000_000_000_000 + number,
        "payload": encode_message(row(number, "secret of row")),
        "schema": (encode_message(ORDERS),),
    }
    return DeadLetter(**{**told, **fields})
