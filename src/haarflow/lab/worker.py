"""The process that simulates: it reads commands from its standard input and writes frames to its standard output.

A compile, an endless loop or a lack of memory here neither freezes nor ends the page. Messages are four bytes of
length and that many bytes: JSON (first byte J) or binary (B). No text of a user is ever run or unpickled. A frame is
made only when the page has asked for one (a credit), of the latest state: a slow page misses frames and grows nothing.
"""

import contextlib
import io
import json
import os
import queue
import sys
import threading
import time
from typing import Any

LONGEST = 64 * 2**20  # bytes of a message
ROOM = 2**20  # bytes of a pipe
RECORDS = 20_000  # rows of a run; then it pauses
ALONE = 30.0  # seconds without a credit after which a run pauses by itself
PAUSE = 0.4  # seconds at least between two pictures of the function
PICTURES = 60.0  # clouds a second that a page is shown at most, records or not
SHARE = 1 / 3  # of the time, at most, goes into rows of curves while a run plays; then some are left out


def read(stream: Any) -> bytes | None:
    """One message; None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = int.from_bytes(head, "little")
    body = stream.read(size) if size <= LONGEST else b""
    return body if len(body) == size else None


class Simulation:
    """The run of one page, and what the page has asked for."""

    def __init__(self, out: Any):
        self.out, self.inbox = out, queue.SimpleQueue()
        self.run: Any = None
        self.axes: Any = None
        self.playing, self.speed, self.credits = False, 20.0, 0
        self.shown, self.told, self.last = 0, 0, -1.0  # the step on show, the rows told, the time of the last frame
        self.fresh, self.compiled, self.next_at, self.drawn_at = False, 0, 0.0, 0.0
        self.spent, self.recorded = 0.0, 0.0  # seconds since the last row, and those of a record
        self.data: dict[str, Any] = {}
        self.cold, self.state_told = False, ""
        self.heard = time.monotonic()

    def say(self, **fields: Any) -> None:
        """A message in words."""
        from haarflow.lab.frames import _finite

        self.send(b"J" + json.dumps(_finite(fields), allow_nan=False).encode())

    def send(self, body: bytes) -> None:
        """One message to the server."""
        self.out.write(len(body).to_bytes(4, "little") + body)
        self.out.flush()

    def listen(self, stream: Any) -> None:
        """Put what the server says into the inbox; None when it has gone."""
        while (body := read(stream)) is not None:
            self.inbox.put(body)
        self.inbox.put(None)

    def loop(self) -> None:
        """Obey and simulate, until the server has gone."""
        while True:
            busy = self.playing and self.run is not None
            wait = max(0.0, self.next_at - time.monotonic()) if busy else None
            try:
                body = self.inbox.get(timeout=wait) if wait is None or wait > 0 else self.inbox.get_nowait()
                if body is None:
                    return
                self.obey(body)
            except queue.Empty:
                self.advance()
            self.show()
            self.warm()

    def obey(self, body: bytes) -> None:
        """Do what one message says; what cannot be done is answered by a sentence."""
        from haarflow.errors import Refusal

        try:
            if body[:1] == b"B":
                return self.receive(body[1:])
            said = json.loads(body[1:])
            getattr(self, f"do_{said.pop('do')}")(**said)
        except Refusal as refusal:
            self.say(type="refused", sentence=str(refusal))
            if self.state_told == "compiling":  # it was, before it was refused
                self.status()

    def do_precision(self, value: str) -> None:
        """Take the precision of a page, before any array is made."""
        import jax

        jax.config.update("jax_enable_x64", value == "float64")

    def do_leave(self) -> None:
        """Forget the page that has gone; its programs are kept for the next one."""
        self.run, self.axes, self.playing, self.fresh, self.cold = None, None, False, False, False
        self.speed, self.credits, self.compiled, self.state_told = 20.0, 0, 0, ""
        self.data = {}
        self.say(type="left")

    def receive(self, content: bytes) -> None:
        """Uploaded data, as an .npz of x and y after 64 letters of their mark."""
        import numpy as np

        import haarflow as hf

        with np.load(io.BytesIO(content[64:]), allow_pickle=False) as file:
            self.data[content[:64].decode().strip()] = hf.Sample(file["x"], file["y"])

    def do_open(self, state: dict[str, Any]) -> None:
        """Begin another run."""
        from haarflow.lab.lab_run import LabRun
        from haarflow.lab.state import validated
        from haarflow.runs.machine import forget_programs

        forget_programs()
        self.playing, before, begun = False, self.compiled, time.monotonic()
        wanted = validated(state)
        self.run = None
        self.run = LabRun(wanted, self.data.get(wanted.upload))
        self.told, self.shown, self.cold, self.spent, self.recorded = 0, 0, True, 0.0, 0.0
        self.opened(compiled=self.compiled - before, seconds=round(time.monotonic() - begun, 3))

    def opened(self, **facts: Any) -> None:
        """Tell what run this is."""
        from haarflow.lab import frames, script

        self.axes, self.fresh = frames.Axes.of(self.run), True
        state = self.run.state
        self.say(
            type="opened",
            state=state.model_dump(mode="json", exclude_none=True),
            link=script.as_link(state),
            scene=frames.scene(self.run, self.axes),
            **facts,
        )
        if self.cold:
            self.tell_status("compiling")
        else:
            self.status()

    def status(self) -> None:
        """Tell whether it plays."""
        self.state_told = "playing" if self.playing else "paused"
        self.say(type="status", status=self.state_told, head=self.run.at if self.run else 0)

    def tell_status(self, status: str) -> None:
        """Tell a status that the page does not know yet."""
        if status != self.state_told:
            self.state_told = status
            self.say(type="status", status=status, head=self.run.at if self.run else 0)

    def warm(self) -> None:
        """Compile the steps of a run that has been shown, while nobody waits."""
        if self.cold and self.run is not None and not self.fresh and self.inbox.empty():
            self.cold = False
            self.run.pieces.advance(0)
            self.status()

    def do_play(self) -> None:
        self.playing = self.run is not None
        if self.run is not None:
            self.shown, self.fresh = self.run.at, True
        self.status()

    def do_pause(self) -> None:
        self.playing = False
        self.settle()
        self.status()

    def do_step(self) -> None:
        self.playing = False
        self.settle()
        self.advance()
        self.status()

    def do_speed(self, value: float) -> None:
        self.speed = min(max(float(value), 0.5), 1000.0)

    def do_seek(self, step: int) -> None:
        """Show an earlier step; the run waits."""
        self.playing = False
        self.settle()
        if self.run is not None:
            self.shown, self.fresh = self.run.nearest(int(step)), True
        self.status()

    def do_credit(self, count: int = 1) -> None:
        self.credits, self.heard = min(self.credits + int(count), 2), time.monotonic()

    def do_turn(self, numbers: dict[str, float]) -> None:
        """Change numbers of the run at the step on show: no program is compiled for it."""
        from haarflow.lab.script import as_link

        if self.run is None:
            return
        self.settle()
        before = self.compiled
        self.run.turn(numbers, self.shown)
        self.told, self.fresh = min(self.told, len(self.run.rows)), True
        if self.shown == 0:
            self.told = 0
        state = self.run.state
        self.say(
            type="turned",
            state=state.model_dump(mode="json", exclude_none=True),
            link=as_link(state),
            head=self.run.at,
            compiled=self.compiled - before,
        )

    def do_look(self, view: dict[str, Any]) -> None:
        """Change the look alone."""
        from haarflow.lab.state import validated

        if self.run is not None:
            self.run.state = validated({**self.run.state.model_dump(mode="json", exclude_none=True), **view})
            self.opened(compiled=0, seconds=0.0)

    def do_take(self, form: str, number: int = 0) -> None:
        """The run so far, as a text or a file."""
        from haarflow.lab import frames, takeaway

        self.settle()
        if self.run is not None:
            name, media, content = takeaway.taken(self.run, form, self.shown)
            header = {"type": "file", "form": form, "name": name, "media": media, "number": number}
            self.send(b"B" + frames.message(header, content))

    def advance(self) -> None:
        """To the next record, if there is one; or some steps towards it, where a record takes longer than a picture."""
        if self.run is None:
            return
        now, every = time.monotonic(), self.run.state.every
        if self.playing and now - self.heard > ALONE:
            return self.do_pause()
        if not self.run.between and self.ended():
            return
        most = self.part() if self.playing else every
        self.next_at = max(self.next_at, now - 0.5) + min(most, every) / every / self.speed
        last = self.run.rows[-1]["step"]
        row = self.run.advance(most, without=self.dear)
        self.spent += time.monotonic() - now
        if row is not None:
            self.spent, self.recorded = 0.0, self.spent * min(every / (row["step"] - last), 1.0)
        self.shown, self.fresh = self.run.at, True
        if self.run.stopped:
            self.playing = False
            self.settle()
            told = ", ".join(f"{lane} after step {step}" for lane, step in self.run.stopped.items())
            sentence = f"The run met a number that is not finite: {told}. Write a smaller dt or a smaller growth."
            self.say(type="refused", sentence=sentence)
            self.status()

    def dear(self) -> bool:
        """Whether the row of this record is left out: it would hold up the pictures, and take over a third of the time.

        The curves have fewer points then, each with the number that the copies give; those have the other points too.
        """
        row, now = self.run.row_seconds, time.monotonic()
        holds_up = self.playing and row > SHARE / PICTURES and now + row > self.next_at
        return holds_up and self.run.row_share > SHARE and self.run.at < self.run.state.steps

    def ended(self) -> bool:
        """Whether the run has all its steps or records; then it says so and waits."""
        assert self.run is not None
        full = len(self.run.rows) >= RECORDS
        if full or (self.run.at >= max(self.run.state.steps, 1) and self.playing):
            self.playing = False
            self.say(type="ended", head=self.run.at, full=full)
            self.status()
            return True
        return False

    def part(self) -> int:
        """Steps until the next picture: so many that there are about `PICTURES` a second, and one at least.

        Measuring costs more than moving: four clouds of 20 000 particles take 10 ms for a step and 45 for a row.
        """
        assert self.run is not None
        every = self.run.state.every
        rate = min(self.speed, 1 / self.recorded if self.recorded else self.speed) * every
        return max(1, round(rate / PICTURES))

    def settle(self) -> None:
        """Go on to the next record from between two: a run that waits, turns or is taken away stands at one."""
        if self.run is not None and self.run.settle() is not None:
            self.spent, self.shown, self.fresh = 0.0, self.run.at, True

    def show(self) -> None:
        """Send a frame of what is on show, if it is new and the page has asked for one."""
        if not (self.fresh and self.credits and self.run is not None):
            return
        from haarflow.lab import frames

        new = [[row["step"], row["time"], row["lanes"]] for row in self.run.rows[self.told :]]
        facts = {"compiled": self.compiled, "first": self.told, "stopped": self.run.stopped}
        if self.run.rows[-1]["step"] - self.run.rows[-2:][0]["step"] > self.run.state.every:
            facts["apart"] = self.run.rows[-1]["step"] - self.run.rows[-2]["step"]  # some rows were left out
        if self.shown == self.run.at:
            facts["time"] = self.run.time
        self.send(b"B" + frames.frame(self.run, self.axes, self.shown, new, **facts))
        self.told, self.fresh, self.credits = len(self.run.rows), False, self.credits - 1
        what, now = self.run.state.function, time.monotonic()
        if what != "none" and (not self.playing or now - self.drawn_at > PAUSE):
            picture = frames.function_message(self.run, self.shown, what)
            if picture is not None:
                self.send(b"B" + picture)
            self.drawn_at = time.monotonic()


def prepared() -> None:
    """The compile cache, and single precision until a page asks for another."""
    import jax

    from haarflow.runs import machine

    machine.prepare()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # dozens of small programs, seconds in all
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    jax.config.update("jax_enable_x64", False)


def widened(pipe: int) -> None:
    """Room for a whole frame in the pipe to the server, where the system can: the next step does not wait for it."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, ROOM)  # pyright: ignore[reportAttributeAccessIssue]


def main() -> None:
    """Serve one page."""
    widened(1)
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints goes to standard error, not between the messages
    simulation = Simulation(out)
    threading.Thread(target=simulation.listen, args=(sys.stdin.buffer,), daemon=True).start()
    prepared()
    import jax
    import jax.monitoring

    jax.block_until_ready(jax.jit(lambda number: number + 1)(1.0))  # the first program begins the compiler
    from haarflow.lab import frames, lab_run, script, takeaway  # noqa: F401  (loaded while nobody waits)
    from haarflow.runs.machine import COMPILED, LOWERED

    def heard(event: str, duration_secs: float, **_: Any) -> None:
        if event == LOWERED:
            simulation.tell_status("compiling")
        simulation.compiled += event == COMPILED

    jax.monitoring.register_event_duration_secs_listener(heard)
    simulation.say(type="ready")
    simulation.loop()


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the server has gone
        os._exit(0)
