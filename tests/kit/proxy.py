"""A TCP proxy that goes deaf: what a firewall does to an idle link, or a network to a machine that lost its power.

`hold()` passes nothing on any more and closes nothing: each side sees a link that is open and silent.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK_BYTES = 65_536


class Proxy:
    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._flowing = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._done = asyncio.Event()

    def hold(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self._flowing.set)

    def cut(self) -> None:
        """Ends all links, both ways, at once."""
        self._loop.call_soon_threadsafe(self._abort)

    @contextmanager
    def running(self) -> "Iterator[Proxy]":
        self._thread.start()
        self._ready.wait(5)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._done.set)
            self._thread.join(5)
            self._loop.close()

    async def _serve(self) -> None:
        self._flowing.set()
        server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._done.wait()
        server.close()
        self._abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            there, back = await asyncio.open_connection(*self._target)
            self._writers += [writer, back]
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK_BYTES):
                await self._flowing.wait()
                target.write(data)
                await target.drain()
            await self._flowing.wait()  # An end is not passed on either while the link is held.
        target.close()

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
