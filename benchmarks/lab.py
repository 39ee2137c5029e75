"""The lab under load: its event loop while eight pages simulate, a page that stops reading, floods, and frame rates.

    python benchmarks/lab.py              a minute and a half; --quick for less
    python benchmarks/lab.py --frames     frames with new places drawn a second, in a Chromium with software rendering
                                          (--imitated: with a graphics card that SwiftShader imitates)
    python benchmarks/lab.py --lessons    seconds to the first frame of every lesson, the second time it is opened

All traffic stays on the loopback address and is bounded in number and time. The server runs in this process, with a
task that measures how late its loop wakes up; whoever speaks to it runs in another.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PORT, TOKEN = 8799, "benchmark-" + "b" * 30
HOST = f"127.0.0.1:{PORT}"
OWN = {"Origin": f"http://{HOST}"}
REQUESTS = [("/upload?ending=csv", "POST", b"9" * 10_000_000), ("/nothing", "GET", b""), ("/", "PATCH", b"")]
PAUSE = 0.005  # seconds between two looks at the clock of the loop


def memory() -> float:
    """What this process holds, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


async def lateness(found: list[float]) -> None:
    """How late the loop wakes up, again and again."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(PAUSE)
        found.append(time.perf_counter() - begun - PAUSE)


async def measured(kind: str, seconds: float) -> dict:
    """One kind of load, made by another process, and what it does to this one."""
    from uvicorn import Server

    from haarflow.lab.app import lab
    from haarflow.lab.guard import hosts_of
    from haarflow.lab.serve import config_of

    app = lab(hosts=hosts_of("127.0.0.1", PORT), token=TOKEN, results=Path("results"))
    server, late = Server(config_of(app, "127.0.0.1", PORT)), []
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.05)
    cookie = f"{app.cookie}={app.secret}"
    watching = asyncio.create_task(lateness(late))
    before = memory()
    command = [sys.executable, __file__, "--load", kind, cookie, str(seconds)]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    beside = await asyncio.create_subprocess_exec(sys.executable, __file__, "--idle", stdout=subprocess.PIPE)
    most, told = before, asyncio.create_task(process.communicate())
    while not told.done():
        await asyncio.sleep(0.25)
        most = max(most, memory())
    out, _ = await told
    watching.cancel()
    beside.terminate()
    idle = json.loads((await beside.communicate())[0] or b"0")
    server.should_exit = True
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    p50, p99, worst = np.quantile(late, [0.5, 0.99, 1.0]) * 1e3
    facts = {"loop ms p50": round(p50, 2), "p99": round(p99, 2), "worst": round(worst, 1)}
    facts["p99 of an empty loop beside it"] = idle
    sizes = {"MB before": round(before), "most": round(most), "after": round(memory())}
    return {"load": kind, **facts, **sizes, **json.loads(out.decode().splitlines()[-1])}


def idle() -> None:
    """How late an empty loop wakes up on this machine now, until it is told to end; the server is compared to it."""
    import signal

    async def look() -> None:
        late: list[float] = []
        watching = asyncio.create_task(lateness(late))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, watching.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        print(round(float(np.quantile(late, 0.99)) * 1e3, 2))

    asyncio.run(look())


def connect(cookie: str):
    """A socket of the lab."""
    import websockets

    headers = {**OWN, "Cookie": cookie}
    return websockets.connect(f"ws://{HOST}/live", additional_headers=headers, max_size=2**26, compression=None)


async def page(cookie: str, seconds: float, state: dict, *, reads: bool = True) -> dict:
    """A page that plays a state and draws every frame at once; or one that stops reading after its first frames."""
    frames = opened = 0
    async with connect(cookie) as socket:
        begun = time.monotonic()
        await socket.send(json.dumps({"do": "open", "state": state}))
        await socket.send(json.dumps({"do": "speed", "value": 1000}))
        while time.monotonic() - begun < seconds:
            try:
                said = await asyncio.wait_for(socket.recv(), 1.0)
            except TimeoutError:
                continue
            if isinstance(said, bytes):
                frames += 1
                opened = opened or time.monotonic() - begun
                if not reads and frames > 3:
                    await asyncio.sleep(seconds - (time.monotonic() - begun))
                    break
                await socket.send(json.dumps({"do": "ack"}))
            elif '"status": "paused"' in said:
                await socket.send(json.dumps({"do": "play"}))
    return {"frames": frames, "first frame s": round(opened, 1)}


async def eight(cookie: str, seconds: float) -> dict:
    """Eight pages, the last of which compiles something new."""
    states = [{"particles": 500 + i, "steps": 1_000_000} for i in range(7)]
    odd = {"group": "Dihedral(5)", "unit": "TwoLayer", "outputs_move": False, "particles": 321, "steps": 1_000_000}
    found = await asyncio.gather(*(page(cookie, seconds, state) for state in [*states, odd]))
    return {"frames": [one["frames"] for one in found], "first frame s": [one["first frame s"] for one in found]}


async def deaf(cookie: str, seconds: float) -> dict:
    """A page that stops reading."""
    return await page(cookie, seconds, {"particles": 20_000, "every": 1, "steps": 1_000_000}, reads=False)


async def floods(cookie: str, seconds: float) -> dict:
    """A thousand sockets, ten megabytes of JSON, nonsense, and requests that arrive slowly; then a page that works."""
    import httpx
    import websockets

    counts = {"sockets opened": 0, "sockets refused": 0}
    for _ in range(1000):
        try:
            async with connect(cookie) as socket:
                await socket.send("{}")
                await asyncio.wait_for(socket.recv(), 10)
            counts["sockets opened"] += 1
        except (websockets.WebSocketException, OSError, TimeoutError):
            counts["sockets refused"] += 1
    held = [await connect(cookie) for _ in range(60)]
    codes: dict[int, int] = {}
    async with connect(cookie) as socket:
        try:
            await socket.send("[" + "1," * 5_000_000 + "1]")
            await asyncio.wait_for(socket.recv(), 10)
        except websockets.ConnectionClosed as closed:
            counts["10 MB of JSON closes with"] = closed.rcvd.code if closed.rcvd else 0
    async with httpx.AsyncClient(base_url=f"http://{HOST}", headers={"Cookie": cookie}) as client:
        for path, method, body in REQUESTS:
            for headers in ({}, OWN):
                with contextlib.suppress(httpx.TransportError):
                    code = (await client.request(method, path, content=body, headers=headers)).status_code
                    codes[code] = codes.get(code, 0) + 1
    slow = [await asyncio.open_connection("127.0.0.1", PORT) for _ in range(50)]
    for _, writer in slow:
        writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
    for _, writer in (garbage := [await asyncio.open_connection("127.0.0.1", PORT) for _ in range(50)]):
        writer.write(os.urandom(2000))
    counts |= await page(cookie, seconds, {"particles": 300})
    for _, writer in [*slow, *garbage]:
        writer.close()
    for socket in held:
        await socket.close()
    return {**counts, "answers": codes, "5xx": sum(n for code, n in codes.items() if code >= 500)}


# Two kinds of software rendering: what Chromium does by itself where there is no card, and a card that is imitated.
PLAIN = ["--no-sandbox", "--disable-gpu"]
IMITATED = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


class Tab:
    """A page of that Chromium, over its own protocol: it runs a line of JavaScript when asked to, and no more.

    Playwright listens to the page's network: of each frame it is told all bytes, which takes as long as to draw it.
    """

    def __init__(self, address: str):
        from websockets.sync.client import connect

        self.socket, self.said = connect(address, max_size=None, compression=None, legacy=True), 0

    def call(self, method: str, **params) -> dict:
        """What the browser answers to a command."""
        self.said += 1
        self.socket.send(json.dumps({"id": self.said, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv())).get("id") != self.said:
            pass
        return answer["result"]

    def look(self, script: str):
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Wait for an expression to be true."""
        while not self.look(script):
            time.sleep(0.02)

    def close(self) -> None:
        """Close the page."""
        self.call("Page.close")
        self.socket.close()


@contextlib.contextmanager
def opened_browser(arguments: list[str] = PLAIN):
    """A lab in another process, and the address of a Chromium that draws by the processor."""
    import shutil
    import tempfile

    environment = {**os.environ, "HAARFLOW_LAB_TOKEN": TOKEN}
    command = [sys.executable, "-m", "haarflow", "lab", "--no-browser", "--port", str(PORT)]
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    server.stderr.readline()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [shutil.which("chromium") or "chromium", "--headless", "--remote-debugging-port=0"]
        command += [f"--user-data-dir={home}", "--no-first-run", *arguments]
        browser = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            while not (place := Path(home) / "DevToolsActivePort").exists() or "\n" not in place.read_text():
                time.sleep(0.05)
            yield f"http://127.0.0.1:{place.read_text().split()[0]}"
        finally:
            for process in (browser, server):
                process.terminate()
                process.wait()


def first_frame(browser: str, state: str) -> tuple[Tab, float]:
    """A page that shows a state, and the seconds until its first frame."""
    import httpx

    tab = Tab(httpx.put(f"{browser}/json/new?about:blank").json()["webSocketDebuggerUrl"])
    tab.call("Emulation.setDeviceMetricsOverride", width=1280, height=800, deviceScaleFactor=1, mobile=False)
    begun = time.monotonic()
    tab.call("Page.navigate", url=f"http://{HOST}/?token={TOKEN}#{state}")
    tab.until("!!window.lab && lab.frames > 0")
    return tab, time.monotonic() - begun


def frames(seconds: float = 12.0) -> None:
    """Frames a second that a page draws, each of all panes and of another step: of all particles the places are new."""
    states = {
        "4 panes of 20 000, the lesson": "preset=many",
        "4 panes of 20 000, a row for every five steps": "v=1&particles=20000&steps=100000",
        "1 pane of 100 000": "v=1&particles=100000&steps=100000&schemes=%5B%22vanilla%22%5D",
        "4 panes of 20 000, a row for every step": "v=1&particles=20000&steps=100000&every=1",
    }
    imitated = "--imitated" in sys.argv
    with opened_browser(IMITATED if imitated else PLAIN) as browser:
        for name, state in states.items():
            tab, first = first_frame(browser, state)
            tab.until("lab.status === 'paused'")
            drawing = tab.look(f"({REDRAWS})({seconds / 3})")
            tab.look(PLAY)
            time.sleep(3)
            (start, step), used, begun = tab.look("[lab.moved, lab.step]"), _used(), time.monotonic()
            time.sleep(seconds)
            (end, last), took = tab.look("[lab.moved, lab.step]"), time.monotonic() - begun
            busy = {part: round(1e3 * (now - used[part]) / max(end - start, 1), 1) for part, now in _used().items()}
            facts = {"frames": name, "first frame s": round(first, 1), "drawn again a second": round(drawing, 1)}
            facts |= {"with new places a second": round((end - start) / took, 1), "CPU ms for each": busy}
            facts |= {"steps a second": round((last - step) / took, 1), "load": round(os.getloadavg()[0], 1)}
            print(json.dumps(facts), flush=True)
            tab.close()


def lessons() -> None:
    """Seconds to the first frame of every lesson, with what it compiles in the cache."""
    from haarflow.lab.presets import PRESETS

    with opened_browser() as browser:
        for again in (False, True):
            for name in PRESETS:
                begun = time.monotonic()
                tab, first = first_frame(browser, f"preset={name}")
                tab.until("lab.status === 'paused'")
                ready = time.monotonic() - begun
                facts = {"lesson": name, "cache": "warm" if again else "as it was", "first frame s": round(first, 2)}
                load = round(os.getloadavg()[0], 1)
                print(json.dumps({**facts, "ready to play s": round(ready, 2), "load": load}), flush=True)
                tab.close()


def _used() -> dict[str, float]:
    """Processor seconds so far, of the browser, the workers and the server."""
    return {
        "browser": _seconds_of("chromium"),
        "worker": _seconds_of("", b"haarflow.lab.worker"),
        "server": _seconds_of("", b"haarflow\0lab"),
    }


def _seconds_of(name: str, word: bytes = b"") -> float:
    """Processor seconds of all processes of a name, with a word in their command."""
    ticks, found = os.sysconf("SC_CLK_TCK"), 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = place.read_text()
            if f"({name}" in text and word in (place.parent / "cmdline").read_bytes():
                found += sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return found / ticks


PLAY = """{
  const speed = document.getElementById('speed');
  speed.value = '1000';
  speed.dispatchEvent(new Event('change'));
  document.getElementById('play').click();
}"""
# How many times a second the page draws the same frame of all panes again, when nothing is simulated.
REDRAWS = """async (seconds) => {
  const { header } = lab.last, first = header.first + header.rows.length;
  const again = { ...lab.last, header: { ...header, rows: [], first } };
  const end = performance.now() + 1000 * seconds;
  let count = 0;
  while (performance.now() < end) {
    lab.replay(again);
    count += 1;
    await new Promise(requestAnimationFrame);
  }
  return count / seconds;
}"""

LOADS = {"eight": eight, "deaf": deaf, "floods": floods}


def main() -> None:
    """All loads, one after another; or, in the other process, one of them."""
    if "--idle" in sys.argv:
        return idle()
    if "--frames" in sys.argv:
        return frames()
    if "--lessons" in sys.argv:
        return lessons()
    if "--load" in sys.argv:
        kind, cookie, seconds = sys.argv[sys.argv.index("--load") + 1 :]
        return print(json.dumps(asyncio.run(LOADS[kind](cookie, float(seconds)))))
    quick, wanted = "--quick" in sys.argv, [kind for kind in LOADS if kind in sys.argv] or list(LOADS)
    for kind, seconds in {"floods": 15.0, "deaf": 75.0, "eight": 90.0}.items():
        if kind not in wanted:
            continue
        print(json.dumps(asyncio.run(measured(kind, seconds / 3 if quick else seconds))), flush=True)


if __name__ == "__main__":
    main()
