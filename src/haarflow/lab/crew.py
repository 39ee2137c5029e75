"""The processes that simulate for pages: as many as pages, and one that waits warm; messages to them and from them.

A new process reads JAX and the library for seconds. So one is begun before a page needs it: at the start of the server,
and again some time after it was taken, when the page that took it needs the processor no more; and a process whose page
has gone waits for the next page, if none waits yet.
"""

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from haarflow.errors import Refusal

SESSIONS = 8  # pages with a worker at once
AFTER = 30.0  # seconds after a page came, until the process for the next one is begun
PATIENCE = 2.0  # seconds in which a process clears itself for another page, or is ended
LIGHT = 1e9  # bytes that a process may hold that waits for another page
ROOM = 2**20  # bytes that may wait between a worker and the server: a frame of 80 000 particles has 320 000


class Worker:
    """A process that simulates; what it says is read message by message."""

    def __init__(self, process: asyncio.subprocess.Process):
        self.process, self.precision = process, ""
        self.size: int | None = None  # of the message that is on its way

    @classmethod
    async def begin(cls) -> "Worker":
        """A new process, with one thread and below the server's priority; its precision is settled when it is taken."""
        from haarflow.runs.machine import one_thread_each

        environment = {**os.environ, **one_thread_each()}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "haarflow.lab.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=ROOM,
            env=environment,
        )
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, process.pid, 10)
        return cls(process)

    async def tell(self, **fields: Any) -> None:
        """Words to the process."""
        await self.send(b"J" + json.dumps(fields).encode())

    async def send(self, body: bytes) -> None:
        """A message to the process; one that has ended hears nothing, and its reader sees the end."""
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):
            self.process.stdin.write(len(body).to_bytes(4, "little") + body)
            await self.process.stdin.drain()

    async def hear(self) -> bytes | None:
        """The next message; None when the process has ended. Who stops listening halfway loses nothing."""
        assert self.process.stdout is not None
        try:
            if self.size is None:
                self.size = int.from_bytes(await self.process.stdout.readexactly(4), "little")
            body = await self.process.stdout.readexactly(self.size)
            self.size = None
            return body
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def settle(self, precision: str) -> bool:
        """Take a precision, once; whether it has that one now, and lives."""
        if not self.precision:
            self.precision = precision
            await self.tell(do="precision", value=precision)
        return self.precision == precision and self.process.returncode is None

    async def clear(self) -> bool:
        """Forget the page that has gone; whether the process has answered in time and is small enough to stay."""
        await self.tell(do="leave")
        while (body := await self.hear()) is not None:
            if body[:1] == b"J" and json.loads(body[1:])["type"] == "left":
                return self.memory() < LIGHT
        return False

    def memory(self) -> float:
        """Bytes it holds, where the system says."""
        try:
            with open(f"/proc/{self.process.pid}/statm") as file:
                return float(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError, AttributeError):
            return 0.0

    async def end(self) -> None:
        """End the process and wait for it."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()


class Crew:
    """Workers for pages: as many as there are pages that simulate, and one that waits warm for the next."""

    def __init__(self, most: int = SESSIONS, *, spare: bool = True):
        self.most, self.keeps_spare = most, spare
        self.busy: set[Worker] = set()
        self.coming = 0
        self.spare: asyncio.Task[Worker] | None = None
        self.due: asyncio.TimerHandle | None = None
        self.sessions: set[Any] = set()
        self.data: dict[str, bytes] = {}
        self.rows: dict[str, int] = {}

    def prepare(self, after: float = 0.0) -> None:
        """Begin the one that waits, now or after some seconds, unless one waits then or all places are taken."""
        if after and self.due is None:
            self.due = asyncio.get_running_loop().call_later(after, self._prepare)
        elif not after:
            self._prepare()

    def _prepare(self) -> None:
        self.due = None
        if self.keeps_spare and self.spare is None and len(self.busy) + self.coming < self.most:
            self.spare = asyncio.ensure_future(Worker.begin())

    async def take(self, precision: str) -> Worker:
        """A worker, or a sentence where there are too many pages."""
        if len(self.busy) + self.coming >= self.most:
            raise Refusal(
                f"The lab simulates for {self.most} pages at once, and so many are open. Close one of them first."
            )
        self.coming += 1  # counted before it is waited for: pages that come at once share no worker and no place
        try:
            worker = await self._begun(precision)
        finally:
            self.coming -= 1
        self.busy.add(worker)
        self.prepare(AFTER)
        return worker

    async def _begun(self, precision: str) -> Worker:
        """The one that waits, if it is of that precision and alive; or a new one."""
        if self.spare is not None:
            waiting, self.spare = self.spare, None
            worker = await waiting
            if await worker.settle(precision):
                return worker
            if worker.process.returncode is None and self.spare is None:
                self.spare = waiting  # for a page of its own precision
            else:
                await worker.end()
        worker = await Worker.begin()
        await worker.settle(precision)
        return worker

    async def leave(self, worker: Worker) -> None:
        """A worker whose page has gone waits for the next page, where none waits; otherwise it ends."""
        self.busy.discard(worker)
        if self.keeps_spare and self.spare is None:
            self.spare = asyncio.ensure_future(self._cleared(worker))
        else:
            await worker.end()

    async def _cleared(self, worker: Worker) -> Worker:
        """The same worker without its page, or a new one."""
        with contextlib.suppress(TimeoutError):
            if await asyncio.wait_for(worker.clear(), PATIENCE):
                return worker
        await worker.end()
        return await Worker.begin()

    async def drop(self, worker: Worker) -> None:
        """End a worker."""
        self.busy.discard(worker)
        await worker.end()

    async def close(self) -> None:
        """End all."""
        self.keeps_spare = False
        if self.due is not None:
            self.due.cancel()
        for worker in list(self.busy):
            await self.drop(worker)
        if self.spare is not None:
            await (await self.spare).end()
