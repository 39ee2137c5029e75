"""Workers and their pages: bounds on processes, memory and frames."""

import asyncio
import io
import json

import jax
import pytest

from haarflow.errors import Refusal
from haarflow.lab import crew, sessions, worker
from haarflow.runs import machine

SMALL = {"particles": 12, "batch": 3, "steps": 100, "every": 2, "schemes": ["vanilla"]}


class Idle:
    """What stands for a process."""

    returncode = None

    def __init__(self, said=(), holds=0.0):
        self.process, self.said, self.holds, self.ended, self.precision = self, list(said), holds, False, ""
        self.told, self.size = [], None

    settle, clear = crew.Worker.settle, crew.Worker.clear

    async def tell(self, **fields):
        self.told.append(fields)

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
    async def begin():
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
    async def begin():
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


@pytest.fixture
def begun(monkeypatch):
    """Processes that were begun: none of them a real one."""
    found = []

    async def begin():
        found.append(Idle())
        return found[-1]

    monkeypatch.setattr(crew.Worker, "begin", begin)
    monkeypatch.setattr(crew, "AFTER", 0.02)
    return found


def test_one_process_waits_before_a_page_needs_it_and_the_next_is_begun_later(begun):
    async def pages():
        one = crew.Crew(3)
        one.prepare()
        await asyncio.sleep(0)
        assert len(begun) == 1, "at the start of the server"
        first = await one.take("float32")
        await asyncio.sleep(0.005)
        assert (first, len(begun)) == (begun[0], 1), "not while the page that has come needs the processor"
        await asyncio.sleep(0.03)
        assert len(begun) == 2, "some time later"
        assert await one.take("float64") is begun[1], "which takes the precision of its page"
        assert [each.told for each in begun] == [[{"do": "precision", "value": f"float{n}"}] for n in (32, 64)]
        await one.take("float32")
        await asyncio.sleep(0.03)
        assert (len(begun), one.spare) == (3, None), "there is no place for a fourth"
        await one.close()
        assert all(each.ended for each in begun)

    asyncio.run(pages())


@pytest.mark.parametrize(
    ("said", "holds", "stays"),
    [([b"Bframe", b'J{"type": "left"}'], 1e8, True), ([b'J{"type": "left"}'], 2e9, False), ([], 1e8, False)],
)
def test_a_process_whose_page_has_gone_waits_for_the_next_page(begun, said, holds, stays):
    """Unless it holds much or does not answer: then a new one does."""

    async def pages():
        one = crew.Crew(3)
        used = await one.take("float32")
        used.said, used.holds = said, holds
        await one.leave(used)
        assert not one.busy
        again = await one.take("float32")
        assert (again is used, used.ended) == (stays, not stays)
        other = await one.take("float64")
        assert other is not used
        await one.leave(other)
        other.said = [b'J{"type": "left"}']
        assert await one.take("float32") is not other, "it has another precision, and arrays of it"
        assert await one.take("float64") is other, "it has waited for a page of its own"
        await one.close()

    asyncio.run(pages())


@pytest.mark.slow
def test_a_real_process_serves_one_page_after_another():
    """The second page comes while the first still plays, and nobody has read what was said to the first."""

    async def first_frame(process):
        await process.tell(do="open", state=SMALL)
        await process.tell(do="credit")
        while (body := await asyncio.wait_for(process.hear(), 120)) and body[:1] != b"B":
            pass
        return body

    async def pages():
        process = await crew.Worker.begin()
        try:
            assert await process.settle("float32")
            one = await first_frame(process)
            await process.tell(do="speed", value=1000)
            await process.tell(do="credit", count=2)
            await process.tell(do="play")
            assert await asyncio.wait_for(process.clear(), 120)
            with pytest.raises(TimeoutError):
                assert await asyncio.wait_for(process.hear(), 1), "nothing more is said of the first page"
            return one, await first_frame(process), await process.settle("float64")
        finally:
            await process.end()

    one, other, doubled = asyncio.run(pages())
    places = [body[9 + int.from_bytes(body[1:5], "little") :] for body in (one, other)]
    assert places[0] == places[1]
    assert b'"step":0' in other
    assert not doubled


def test_who_stops_listening_halfway_loses_nothing():
    async def listen():
        stream = asyncio.StreamReader()
        worker = crew.Worker(type("Process", (), {"stdout": stream})())
        stream.feed_data((5).to_bytes(4, "little") + b"ab")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.hear(), 0.01)
        stream.feed_data(b"cde" + (1).to_bytes(4, "little") + b"f")
        return [await asyncio.wait_for(worker.hear(), 5) for _ in range(2)]

    assert asyncio.run(listen()) == [b"abcde", b"f"]


def test_a_worker_forgets_the_page_that_has_gone():
    simulation = worker.Simulation(out := io.BytesIO())
    simulation.do_open(SMALL)
    simulation.do_play()
    simulation.do_credit(2)
    simulation.data["f"] = "data"
    simulation.obey(b'J{"do": "leave"}')
    out.seek(0, io.SEEK_END)
    end = out.tell()
    for _ in range(3):
        simulation.advance()
        simulation.show()
    simulation.warm()
    assert out.tell() == end, "nothing is said to nobody"
    assert (simulation.run, simulation.data, simulation.playing, simulation.credits) == (None, {}, False, 0)


def test_a_worker_forgets_programs_before_they_fill_the_process(monkeypatch):
    forgotten = []
    monkeypatch.setattr(jax, "clear_caches", lambda: forgotten.append(True))
    simulation = worker.Simulation(io.BytesIO())
    simulation.do_open(SMALL)
    assert forgotten == []
    monkeypatch.setattr(machine, "mappings", lambda: machine.MAPPED + 1)
    simulation.do_open(SMALL)
    assert forgotten == [True]


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
