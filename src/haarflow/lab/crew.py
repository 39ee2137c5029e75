"""The processes that simulate for pages: as many as pages, and one that waits warm; messages to them and from them."""

import asyncio
import contextlib
import json
import os
import sys
from typing import Any

from haarflow.errors import Refusal

SESSIONS = 8  # pages with a worker at once
ROOM = 2**20  # bytes that may wait between a worker and the server: a frame of 80 000 particles has 320 000


class Worker:
    """A process that simulates; what it says is read message by message."""

    def __init__(self, process: asyncio.subprocess.Process, precision: str):
        self.process, self.precision = process, precision

    @classmethod
    async def begin(cls, precision: str) -> "Worker":
        """A new process, with one thread and below the server's priority."""
        from haarflow.runs.machine import one_thread_each

        environment = {**os.environ, **one_thread_each(), "HAARFLOW_LAB_PRECISION": precision}
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
        return cls(process, precision)

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
        """The next message; None when the process has ended."""
        assert self.process.stdout is not None
        try:
            size = int.from_bytes(await self.process.stdout.readexactly(4), "little")
            return await self.process.stdout.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

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
        self.sessions: set[Any] = set()
        self.data: dict[str, bytes] = {}
        self.rows: dict[str, int] = {}

    def prepare(self) -> None:
        """Begin the one that waits."""
        if self.keeps_spare and self.spare is None and len(self.busy) < self.most:
            self.spare = asyncio.ensure_future(Worker.begin("float32"))

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
        self.prepare()
        return worker

    async def _begun(self, precision: str) -> Worker:
        """The one that waits, if it is of that precision and alive; or a new one."""
        if self.spare is not None and precision == "float32":
            waiting, self.spare = self.spare, None
            worker = await waiting
            if worker.process.returncode is None:
                return worker
        return await Worker.begin(precision)

    async def drop(self, worker: Worker) -> None:
        """End a worker."""
        self.busy.discard(worker)
        await worker.end()

    async def close(self) -> None:
        """End all."""
        for worker in list(self.busy):
            await self.drop(worker)
        if self.spare is not None:
            await (await self.spare).end()
