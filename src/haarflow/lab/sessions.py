"""A page and its worker: the words of the one are checked and handed on, the frames of the other are sent.

Two frames at most are on their way; the next one is made when the page has drawn one. So a page that stops reading
costs nothing, and nothing is queued here.
"""

import asyncio
import contextlib
import json
import time
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from haarflow.annotations import kind_of
from haarflow.errors import Refusal
from haarflow.lab.crew import Crew, Worker
from haarflow.lab.state import LabState, acting, cost_of, validated

SOCKETS = 64  # pages at once, with a worker or without
LETTERS = 64_000  # of one message of a page
IDLE = 1800.0  # seconds without a word after which a page is let go
MEMORY = 6e9  # bytes that a worker may hold
PLAIN = ("play", "pause", "step")  # what is handed on as it is


class Session:
    """One page."""

    def __init__(self, socket: WebSocket, crew: Crew):
        self.socket, self.crew = socket, crew
        self.worker: Worker | None = None
        self.reader: asyncio.Task[None] | None = None
        self.state: LabState | None = None
        self.compiling = False
        self.restarts: list[float] = []
        self.sending = asyncio.Lock()
        self.known: set[str] = set()

    async def serve(self) -> None:
        """Until the page goes, is silent for too long, or misbehaves."""
        try:
            while True:
                message = await asyncio.wait_for(self.socket.receive(), IDLE)
                if message["type"] == "websocket.disconnect":
                    return
                await self.heard(message.get("text"))
        except (WebSocketDisconnect, TimeoutError, RuntimeError):
            return
        finally:
            await self.end()

    async def say(self, **fields: Any) -> None:
        """Words to the page."""
        async with self.sending:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await self.socket.send_text(json.dumps(fields))

    async def heard(self, text: str | None) -> None:
        """One message of the page: obeyed, or answered by a sentence."""
        try:
            await self.obey(_parsed(text))
        except Refusal as refusal:
            await self.say(type="refused", sentence=str(refusal))

    async def obey(self, said: dict[str, Any]) -> None:
        """Check what was said and hand it on."""
        do = said.get("do")
        if do == "open":
            return await self.open(await asyncio.to_thread(_state, said, self.crew))
        if do == "cost":
            state = await asyncio.to_thread(_state, said, self.crew)
            cost = await asyncio.to_thread(cost_of, state, self.crew.rows.get(state.upload, 0))
            return await self.say(type="cost", **cost.model_dump())
        if do == "ack":
            return await self._tell(do="credit")
        if self.worker is None or self.state is None:
            raise Refusal("There is no run yet. Choose a preset, or press reset.")
        if do == "reset":
            return await self.open(self.state.model_copy(update={"changes": ()}))
        if do in PLAIN:
            return await self._tell(do=do)
        if do == "seek":
            return await self._tell(do=do, step=_number(said, "step", 0, 1e9))
        if do == "speed":
            return await self._tell(do=do, value=_number(said, "value", 0.5, 1000))
        if do == "turn":
            return await self._tell(do=do, numbers=_numbers(said.get("numbers")))
        if do == "look":
            return await self.look(said.get("view"))
        if do == "take":
            form = said.get("form")
            return await self._tell(
                do=do, form=form if isinstance(form, str) else "", number=_number(said, "number", 0, 1e9)
            )
        raise Refusal(
            f"A page says open, play, pause, step, seek, speed, turn, look, take or reset; got {str(do)[:20]!r}."
        )

    async def look(self, view: Any) -> None:
        """The look alone: checked with the rest of the state."""
        names = set(view) if isinstance(view, dict) else {""}
        if names - set(acting("looks")):
            raise Refusal("A look is made of axes, dimensions, coordinates, function and curves; got something else.")
        assert self.state is not None
        self.state = await asyncio.to_thread(validated, {**_plain(self.state), **view})
        await self._tell(do="look", view=view)

    async def open(self, state: LabState) -> None:
        """A run of this state, in a worker of its own precision; one that is compiling is left for a new one."""
        if self.worker is not None and (self.worker.precision != state.precision or self.compiling):
            await self._leave()
        if self.worker is None:
            self.worker = await self.crew.take(state.precision)
            self.known, self.compiling = set(), False
            self.reader = asyncio.ensure_future(self._read(self.worker))
        self.state = state
        if state.upload and state.upload not in self.known:
            self.known.add(state.upload)
            await self.worker.send(b"B" + state.upload.ljust(64).encode() + self.crew.data[state.upload])
        await self._tell(do="credit", count=2)
        await self._tell(do="open", state=_plain(state))

    async def _tell(self, **fields: Any) -> None:
        if self.worker is not None:
            await self.worker.tell(**fields)

    async def _read(self, worker: Worker) -> None:
        """Hand on what the worker says, until it ends; then say so and begin another."""
        while (body := await worker.hear()) is not None:
            if body[:1] == b"B":
                async with self.sending:
                    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                        await self.socket.send_bytes(body[1:])
            else:
                await self._told(json.loads(body[1:]))
            if worker.memory() > MEMORY:
                await self.say(type="refused", sentence=f"The worker held more than {MEMORY / 1e9:g} GB and was ended.")
                await worker.end()
        if worker is self.worker:
            await self._again(worker)

    async def _told(self, said: dict[str, Any]) -> None:
        if said["type"] == "status":
            self.compiling = said["status"] == "compiling"
        if said["type"] in ("opened", "turned"):
            self.state = await asyncio.to_thread(validated, said["state"])
        if said["type"] != "ready":
            await self.say(**said)

    async def _again(self, worker: Worker) -> None:
        """The worker has ended by itself: tell the page, and begin the same run in another, three times a minute."""
        self.crew.busy.discard(worker)
        self.worker, now = None, time.monotonic()
        self.restarts = [*(then for then in self.restarts if now - then < 60), now]
        again = len(self.restarts) <= 3 and self.state is not None
        sentence = "The worker ended (out of memory, or killed)."
        await self.say(type="worker", restarted=again, sentence=sentence + " The run begins again." * again)
        if again and self.state is not None:
            with contextlib.suppress(Refusal):
                await self.open(self.state)

    async def _leave(self) -> None:
        if (worker := await self._parted()) is not None:
            await self.crew.drop(worker)

    async def _parted(self) -> Worker | None:
        """The worker, to which nobody listens any more."""
        worker, self.worker = self.worker, None
        if self.reader is not None:
            self.reader.cancel()
            await asyncio.wait([self.reader])
        return worker

    async def end(self) -> None:
        """Let the worker go: it waits for the next page, unless it is compiling; then another one is begun."""
        self.crew.sessions.discard(self)
        worker = await self._parted()
        if worker is not None and self.compiling:
            await self.crew.drop(worker)
            self.crew.prepare()
        elif worker is not None:
            await self.crew.leave(worker)


def _plain(state: LabState) -> dict[str, Any]:
    return state.model_dump(mode="json", exclude_none=True)


def _parsed(text: str | None) -> dict[str, Any]:
    rule = f"A page sends one JSON table of {LETTERS} letters at most"
    if text is None or len(text) > LETTERS:
        raise Refusal(f"{rule}; got {'bytes' if text is None else f'{len(text)} letters'}.")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise Refusal(f"{rule}; got something else.") from None
    if not isinstance(found, dict):
        raise Refusal(f"{rule}; got {kind_of(found)}.")
    return found


def _state(said: dict[str, Any], crew: Crew) -> LabState:
    """The state that a page asks for, by its values, by a link or by a preset, with a cost that is accepted."""
    from haarflow.lab.presets import preset
    from haarflow.lab.script import from_link

    link, name = said.get("link"), said.get("preset")
    if isinstance(link, str):
        state = from_link(link)
    elif isinstance(name, str):
        state = preset(name)
    else:
        state = validated(said.get("state"))
    if state.data == "upload" and state.task == "learn" and state.upload not in crew.data:
        raise Refusal("The uploaded data are gone: the lab keeps them while it runs. Upload the file again.")
    cost_of(state, crew.rows.get(state.upload, 0)).refuse(state)
    return state


def _number(said: dict[str, Any], name: str, least: float, most: float) -> float:
    value = said.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise Refusal(f"{name} is a number from {least:g} to {most:g}; got {str(value)[:20]!r}.")
    return value


def _numbers(given: Any) -> dict[str, float]:
    names = acting("slides")
    if not isinstance(given, dict) or not given or set(given) - set(names):
        raise Refusal(f"What turns are numbers of {', '.join(names)}; got something else.")
    return {name: _number(given, name, 0, 100) for name in given}
