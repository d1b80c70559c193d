"""A process of TCP proxies, one a link, that misbehave as they are told over a control socket.

    python -m chaos.fleet.proxy CONTROL_SOCKET 'name=PORT:TARGET_PORT' …

A line on the control socket is a JSON object: {"link": name, "do": fault, …}; the answer is "ok". Faults:

| do | what the link does from then on |
| --- | --- |
| heal | passes everything on; links that lost bytes are ended |
| cut | ends its connections now, with a reset; new ones are welcome |
| refuse | the same, and takes no new ones |
| hold | passes nothing on and closes nothing (`way`: up, down or both): half-open |
| swallow | takes bytes and loses them (`way`), so that a request arrives and its answer does not |
| delay | each piece waits `seconds` ± `jitter` |
| drip | `bytes` at a time, `seconds` between |

Invariant: bytes that are passed on are in order and whole; a link that lost some is never healed, only ended.
"""

import asyncio
import json
import random
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CHUNK_BYTES = 65_536
_HOST = "127.0.0.1"


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class Way:
    """One direction of a link, and how it misbehaves."""

    flowing: asyncio.Event = field(default_factory=_set)
    swallows: bool = False
    delay_seconds: float = 0.0
    jitter_seconds: float = 0.0
    chunk_bytes: int = CHUNK_BYTES

    @staticmethod
    async def take(seconds: float) -> None:
        """The delay itself."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), seconds)

    def heal(self) -> None:
        self.swallows, self.delay_seconds, self.jitter_seconds, self.chunk_bytes = False, 0.0, 0.0, CHUNK_BYTES
        self.flowing.set()


@dataclass
class Link:
    name: str
    target: int
    ways: dict[str, Way] = field(default_factory=lambda: {"up": Way(), "down": Way()})
    refuses: bool = False
    open: set[asyncio.StreamWriter] = field(default_factory=set)
    lossy: set[asyncio.StreamWriter] = field(default_factory=set)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refuses:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection(_HOST, self.target)
        except OSError:
            writer.transport.abort()
            return
        self.open |= {writer, back}
        try:
            await asyncio.gather(self._pump("up", reader, writer, back), self._pump("down", there, back, writer))
        finally:
            self.open -= {writer, back}
            self.lossy -= {writer, back}

    async def _pump(
        self, way_name: str, source: asyncio.StreamReader, origin: asyncio.StreamWriter, target: asyncio.StreamWriter
    ) -> None:
        way = self.ways[way_name]
        with suppress(OSError):
            while data := await source.read(way.chunk_bytes):
                await self._misbehave(way)
                if way.swallows:
                    self.lossy |= {origin, target}
                    continue
                target.write(data)
                await target.drain()
            await self._misbehave(way)  # An end is not passed on either while the link is held.
        with suppress(OSError):
            target.close()

    async def _misbehave(self, way: Way) -> None:
        await way.flowing.wait()
        if way.delay_seconds:
            await way.take(max(0.0, way.delay_seconds + random.uniform(-1, 1) * way.jitter_seconds))

    def obey(self, order: dict[str, Any]) -> None:
        ways = [self.ways[name] for name in (("up", "down") if order.get("way", "both") == "both" else (order["way"],))]
        match order["do"]:
            case "heal":
                self.refuses = False
                self._abort(self.lossy)
                for way in ways:
                    way.heal()
            case "cut":
                self._abort(self.open)
            case "refuse":
                self.refuses = True
                self._abort(self.open)
            case "hold":
                for way in ways:
                    way.flowing.clear()
            case "swallow":
                for way in ways:
                    way.swallows = True
            case "delay" | "drip":
                for way in ways:
                    way.delay_seconds = order["seconds"]
                    way.jitter_seconds = order.get("jitter", 0.0)
                    way.chunk_bytes = order.get("bytes", CHUNK_BYTES)
            case unknown:
                raise ValueError(unknown)

    def _abort(self, writers: set[asyncio.StreamWriter]) -> None:
        for writer in tuple(writers):
            writer.transport.abort()


async def serve(control: str, links: dict[str, tuple[int, int]]) -> None:
    made = {name: Link(name, target) for name, (_, target) in links.items()}
    servers = [await asyncio.start_server(made[name].accept, _HOST, port) for name, (port, _) in links.items()]

    async def controlled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            order = json.loads(line)
            made[order["link"]].obey(order)
            writer.write(b"ok\n")
        writer.close()

    servers.append(await asyncio.start_unix_server(controlled, control))
    await asyncio.gather(*(server.serve_forever() for server in servers))


def parsed(arguments: list[str]) -> dict[str, tuple[int, int]]:
    links = {}
    for argument in arguments:
        name, _, ports = argument.partition("=")
        port, _, target = ports.partition(":")
        links[name] = (int(port), int(target))
    return links


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], parsed(sys.argv[2:])))
