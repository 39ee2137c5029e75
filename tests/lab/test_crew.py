"""Workers and their pages: bounds on processes, memory and frames."""

import asyncio
import io
import json

import pytest

from haarflow.errors import Refusal
from haarflow.lab import crew, sessions, worker

SMALL = {"particles": 12, "batch": 3, "steps": 100, "every": 2, "schemes": ["vanilla"]}


class Idle:
    """What stands for a process."""

    precision, returncode = "float32", None

    def __init__(self, said=(), holds=0.0):
        self.process, self.said, self.holds, self.ended = self, list(said), holds, False

    async def hear(self):
        return self.said.pop(0) if self.said and not self.ended else None

    def memory(self):
        return self.holds

    async def end(self):
        self.ended = True


class Page:
    """What stands for a socket."""

    def __init__(self):
        self.heard, self.frames = [], 0

    async def send_text(self, text):
        self.heard.append(json.loads(text))

    async def send_bytes(self, _):
        self.frames += 1


def test_there_are_so_many_workers_and_no_more(monkeypatch):
    async def begin(_):
        return Idle()

    async def take():
        one = crew.Crew(2, spare=False)
        workers = [await one.take("float32") for _ in range(2)]
        with pytest.raises(Refusal, match="2 pages at once"):
            await one.take("float32")
        await one.drop(workers[0])
        await one.take("float32")

    monkeypatch.setattr(crew.Worker, "begin", begin)
    asyncio.run(take())


def test_pages_that_come_at_once_have_a_worker_each(monkeypatch):
    async def begin(_):
        await asyncio.sleep(0.01)
        return Idle()

    async def take():
        one = crew.Crew(8)
        one.prepare()
        return await asyncio.gather(*(one.take("float32") for _ in range(10)), return_exceptions=True)

    monkeypatch.setattr(crew.Worker, "begin", begin)
    found = asyncio.run(take())
    assert len({one for one in found if isinstance(one, Idle)}) == 8
    assert [type(one) for one in found[8:]] == [Refusal, Refusal]


@pytest.mark.parametrize(("holds", "frames"), [(1e9, 3), (7e9, 1)])
def test_a_worker_that_holds_too_much_is_ended_and_said(holds, frames):
    async def read():
        page, busy = Page(), Idle([b"Bframe"] * 3, holds)
        session = sessions.Session(page, crew.Crew(1, spare=False))
        session.worker = busy
        await session._read(busy)
        return page, busy

    page, busy = asyncio.run(read())
    assert page.frames == frames
    assert busy.ended == (holds > sessions.MEMORY)
    assert any("more than 6 GB" in said.get("sentence", "") for said in page.heard) == busy.ended
    assert page.heard[-1]["type"] == "worker"


def test_a_frame_is_made_for_each_that_was_asked_for_and_two_at_most():
    simulation = worker.Simulation(out := io.BytesIO())
    simulation.do_open(SMALL)
    simulation.do_play()

    def frames():
        """Frames made while it is four times on its way."""
        before = len(out.getvalue())
        for _ in range(4):
            simulation.advance()
            simulation.show()
        out.seek(before)
        bodies = []
        while (body := worker.read(out)) is not None:
            bodies.append(body)
        return sum(body[:1] == b"B" for body in bodies)

    assert frames() == 0
    simulation.do_credit()
    assert frames() == 1
    for _ in range(5):
        simulation.do_credit(1000)
    assert frames() == 2
    assert simulation.run.at >= 3 * 4, "it went on meanwhile"


def test_what_is_refused_while_it_compiles_is_not_compiling_any_more():
    simulation = worker.Simulation(out := io.BytesIO())
    simulation.tell_status("compiling")
    simulation.obey(b"J" + json.dumps({"do": "open", "state": {**SMALL, "group": "Signs(2)"}}).encode())
    out.seek(0)
    said = []
    while (body := worker.read(out)) is not None:
        said.append(json.loads(body[1:]))
    assert [one["type"] for one in said] == ["status", "refused", "status"]
    assert said[-1]["status"] == "paused"
