"""A lab in a process of its own, and a real Chromium that opens it. Nothing is downloaded: what is missing is said."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOKEN = "browser-tests-" + "t" * 30
PORT = 8797
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SOFTWARE = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


class Lab:
    """A lab that can be started again."""

    def __init__(self, folder: Path):
        self.folder, self.process = folder, None

    def start(self, token: str = TOKEN) -> None:
        environment = {**os.environ, "HAARFLOW_LAB_TOKEN": token}
        for name in ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS"):
            environment.pop(name, None)
        command = [sys.executable, "-m", "haarflow", "lab", "--no-browser", "--port", str(PORT)]
        command += ["--results", str(self.folder)]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        assert "token" in self.process.stderr.readline()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(20)
            self.process.stderr.close()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{PORT}/?token={TOKEN}"


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    one = Lab(tmp_path_factory.mktemp("results"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is missing; write: pip install 'haarflow[browser]'."
    )
    if CHROMIUM is None:
        pytest.skip("Chromium is missing; on Debian write: apt install chromium.")
    with playwright.sync_playwright() as driver:
        one = driver.chromium.launch(executable_path=CHROMIUM, args=SOFTWARE)
        yield one
        one.close()


class Page:
    """A page of the lab; waits ask again and again, since the page's policy forbids to evaluate text in it."""

    def __init__(self, page):
        self.page, self.errors = page, []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)

    def look(self, script):
        return self.page.evaluate(script)

    def until(self, script, seconds=180):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (found := self.look(script)) not in (None, False):
                return found
            time.sleep(0.05)
        known = self.look("JSON.stringify({...lab, last: null})")
        raise AssertionError(f"not within {seconds} s: {script}; the page knows {known[:600]}")

    def open(self, address):
        self.page.goto(address)
        self.until("!!window.lab && lab.frames > 0 && lab.status === 'paused'")
        return self


@pytest.fixture
def opened(browser, lab):
    """A function that opens a state of the lab in a window of its own."""
    contexts = []

    def one(state="", width=1280, height=800, **options) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True, **options)
        contexts.append(context)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=f"http://127.0.0.1:{PORT}")
        return Page(context.new_page()).open(lab.address + state)

    yield one
    for context in contexts:
        context.close()
