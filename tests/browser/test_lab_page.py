"""The lab in a real browser: play, slide, scrub, copy, save, upload, and come back after a restart."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

pytestmark = pytest.mark.browser

SMALL = "#v=1&particles=200&steps=5000&every=2"
PIXELS = """(name) => {
  const shown = document.querySelector(`.pane[data-lane="${name}"] .points`), copy = document.createElement('canvas');
  lab.redraw();
  copy.width = shown.width; copy.height = shown.height;
  const context = copy.getContext('2d');
  context.drawImage(shown, 0, 0);
  const data = context.getImageData(0, 0, copy.width, copy.height).data;
  let mark = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i]) mark = (mark * 31 + i * data[i]) % 1000000007;
  return mark;
}"""
SCRUB = """(step) => {
  const place = document.getElementById('scrub');
  place.value = step; place.dispatchEvent(new Event('input')); place.dispatchEvent(new Event('change'));
}"""
LEAVE_OUT = ("JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")  # of the default tests: they change the last bits
DARK, LIGHT = "rgb(19, 20, 22)", "rgb(245, 245, 242)"


def pixels(page, lane):
    return page.page.evaluate(PIXELS, lane)


def numbers_of(path):
    with np.load(io.BytesIO(path.read_bytes())) as file:
        return dict(file)


def slide(page, name, value):
    box = page.page.locator(f"#control-{name} .number")
    box.fill(str(value))
    box.press("Enter")


def test_open_play_and_see_four_panes_move(opened):
    page = opened(SMALL)
    assert page.look("[...document.querySelectorAll('.pane')].map(p => p.dataset.lane).join()") == "vanilla,DA,FA,EA"
    before = {lane: pixels(page, lane) for lane in ("vanilla", "DA", "FA", "EA")}
    assert all(before.values()), "every pane shows points"
    page.page.click("#play")
    page.until("lab.step >= 40")
    page.page.keyboard.press("Space")
    page.until("lab.status === 'paused'")
    assert all(pixels(page, lane) != before[lane] for lane in before), "every cloud has moved"
    assert page.look("document.querySelectorAll('.chart').length") == 6
    assert page.errors == []


def test_a_slider_acts_at_once_without_compiling_or_reconnecting(opened):
    page = opened(SMALL)
    page.page.click("#play")
    page.until("lab.step >= 10")
    compiled, connections, opens = (page.look(f"lab.{name}") for name in ("compiled", "connections", "opened"))
    slide(page, "dt", 0.37)
    page.until("lab.turned && lab.turned.state.changes.length === 1 && lab.turned.state.changes[0].dt === 0.37")
    step = page.look("lab.step")
    page.until(f"lab.step > {step + 10}")
    assert page.look("lab.turned.compiled") == 0
    assert (page.look("lab.compiled"), page.look("lab.connections"), page.look("lab.opened")) == (
        compiled,
        connections,
        opens,
    )
    assert "changes" in page.look("location.hash")


def test_scrub_back_and_play_on(opened):
    page = opened(SMALL)
    page.page.click("#play")
    page.until("lab.step >= 30")
    page.page.click("#play")
    page.until("lab.status === 'paused' && lab.step === lab.head")
    head, here = page.look("lab.head"), pixels(page, "vanilla")
    page.page.evaluate(SCRUB, page.look("lab.records()[2]"))  # on a slow machine not each step of two is a record
    page.until("lab.step === lab.records()[2]")
    assert page.look("lab.head") == head
    assert pixels(page, "vanilla") != here
    page.page.keyboard.press("End")
    page.until(f"lab.step === {head}")
    assert pixels(page, "vanilla") == here, "the same frame again"
    page.page.click("#step")
    page.until(f"lab.step === {head + 2}")


@pytest.mark.parametrize("name", ["theorem-5", "birth-death", "langevin", "game", "triangle"])
def test_lessons_open_and_move(opened, name, tmp_path_factory):
    page = opened(f"#preset={name}")
    assert page.look("document.getElementById('preset').value") == name
    assert page.look("document.getElementById('story').textContent.length") > 40
    page.page.click("#play")
    page.until("lab.step >= 20")
    page.page.screenshot(path=str(tmp_path_factory.getbasetemp() / f"{name}.png"))
    assert page.look("lab.refused === undefined")
    assert page.errors == []


def test_the_address_is_the_state(opened, lab):
    page = opened(SMALL + "&seed=7&axes=principal")
    link = page.look("location.hash")
    assert "seed=7" in link
    again = opened(link)
    assert again.look("location.hash") == link
    assert pixels(again, "DA") == pixels(page, "DA")
    page.page.goto(f"{lab.address.split('?')[0]}#v=1&particles=9999999")
    page.until("lab.refused && lab.refused.includes('particles')")


def test_the_copied_script_and_command_give_the_numbers_on_the_screen(opened, tmp_path):
    page = opened(SMALL)
    for _ in range(3):
        page.page.click("#step")
    page.until("lab.step === 6")
    texts = {}
    for form in ("python", "command", "toml", "link"):
        page.look("lab.copied = null")
        page.page.select_option("#copy", form)
        texts[form] = page.until("lab.copied")
        page.page.locator("#dialog button").click()
    with page.page.expect_download() as waiting:
        page.page.select_option("#save", "csv")
    table = np.genfromtxt(waiting.value.path(), delimiter=",", names=True)
    with page.page.expect_download() as waiting:
        page.page.select_option("#save", "npz")
    clouds = numbers_of(Path(waiting.value.path()))
    environment = {name: value for name, value in os.environ.items() if name not in LEAVE_OUT}
    script = (
        texts["python"]
        + "\nnp.savez('out.npz', risk=curves[0][2]['FA']['risk'], atoms=np.asarray(clouds['DA'].atoms))\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    found = numbers_of(tmp_path / "out.npz")
    assert np.array_equal(found["risk"].astype(float), table["FA_risk"])
    assert np.array_equal(found["atoms"], clouds["DA atoms"])
    (tmp_path / "lab.toml").write_text(texts["toml"])
    command = [sys.executable, "-m", "haarflow", "lab", "--config", "lab.toml", "--out", "run.npz"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
    found = numbers_of(tmp_path / "run.npz")
    assert np.array_equal(found["FA: risk"], table["FA_risk"])
    assert np.array_equal(found["DA atoms"], clouds["DA atoms"])
    assert texts["command"].startswith("haarflow lab --set")
    assert texts["link"].startswith("http://127.0.0.1")


def test_pictures_and_films_are_saved(opened):
    page = opened(SMALL)
    heads = {"png": b"\x89PNG", "svg": b"<svg", "webm": b"\x1aE\xdf\xa3"}
    for form, head in heads.items():
        with page.page.expect_download(timeout=60_000) as waiting:
            page.page.select_option("#save", form)
            if form == "webm":
                page.until("lab.filmed > 3000")
                page.page.select_option("#save", form)
        content = Path(waiting.value.path()).read_bytes()
        assert content.startswith(head), form
        assert len(content) > 3000
        if form == "svg":
            words = [text.text for text in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")]
            assert words.count("Eᴳ") == 8, "with the paper around it, in each pane"
            assert {"vanilla", "EA", "along Eᴳ 1", "↑ across Eᴳ 1", "risk", "free energy"} <= set(words)


def test_own_data_are_uploaded_and_learnt(opened, tmp_path):
    draw = np.random.default_rng(0)
    xs = draw.normal(size=(60, 2))
    np.savetxt(
        tmp_path / "d.csv",
        np.column_stack([xs, xs[:, 0] * xs[:, 1]]),
        delimiter=",",
        header="<b>a</b>,b,y",
        comments="",
    )
    page = opened(SMALL)
    page.page.locator("details[data-group=data] summary").click()
    page.page.set_input_files("#upload", str(tmp_path / "d.csv"))
    page.until("lab.opened >= 2 && lab.link.includes('data=upload') && lab.status === 'paused'")
    page.page.click("#step")
    page.until("lab.step === 2")
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    page.page.set_input_files("#upload", str(tmp_path / "bad.csv"))
    page.until("[...document.querySelectorAll('.control .quiet')].some(e => !e.textContent.includes('60 rows'))")


def test_the_teacher_is_drawn_by_mouse(opened):
    page = opened(SMALL)
    page.page.locator("details[data-group=data] summary").click()
    page.page.check("#draw-teacher")
    page.page.locator(".pane[data-lane=vanilla] .over").click(position={"x": 60, "y": 60})
    page.until("lab.opened >= 2 && lab.link.includes('teacher_points')")
    page = opened("#v=1&particles=200&unit=Perceptron&outputs_move=false&axes=coordinates&first=1&second=2")
    page.page.locator("details[data-group=data] summary").click()
    page.page.check("#draw-teacher")
    page.page.locator(".pane[data-lane=vanilla] .over").click(position={"x": 60, "y": 60})
    page.until("lab.opened >= 2 && lab.link.includes('teacher_points')")
    ((output, *_, bias),) = json.loads(page.look("new URLSearchParams(lab.link).get('teacher_points')"))
    assert (output, bias) == (1.0, 0.0), "what the axes do not show: an atom without output would be no teacher"


def test_every_frame_that_came_is_answered(opened):
    """Two frames that come before one is drawn: the first is let go, and both are answered."""
    page = opened(SMALL)
    before = page.look("lab.asked")
    page.look("lab.hear(lab.last), lab.hear(lab.last), 0")
    page.until(f"lab.asked === {before + 2}", seconds=10)


def test_controls_that_do_nothing_for_a_task_are_not_shown(opened):
    page = opened("#preset=game")
    shown = "(name) => document.getElementById(`control-${name}`).checkVisibility()"
    names = ("schemes", "optimiser", "projected", "group", "dt")
    assert [page.page.evaluate(shown, name) for name in names] == [False, False, False, True, True]
    page.page.locator("#control-task").select_option("well")
    page.until("lab.opened >= 2 && lab.status === 'paused'")
    assert page.page.evaluate(shown, "optimiser")


def test_controls_that_do_nothing_beside_others_are_not_shown_and_coordinates_have_names(opened):
    page = opened("#v=1&particles=200&unit=Perceptron&outputs_move=false")
    hidden = "(name) => document.getElementById(`control-${name}`).closest('.control').hidden"
    names = ("first", "third", "rate", "outputs", "exact")
    assert [page.page.evaluate(hidden, name) for name in names] == [True, True, True, False, False]
    page.page.locator("#control-axes").select_option("coordinates")
    page.until("lab.opened >= 2")
    assert [page.page.evaluate(hidden, name) for name in ("first", "second", "third")] == [False, False, True]
    assert page.look("[...document.querySelectorAll('#control-second option')].map((one) => one.textContent)") == [
        "output a",
        "direction w1",
        "direction w2",
        "bias b",
    ]
    page.page.locator("#control-second").select_option("bias b")
    page.until("lab.link.includes('second=3')")


def test_rows_that_hold_up_the_pictures_are_left_out_and_it_is_said(opened):
    page = opened("#v=1&particles=20000&every=1&steps=100000")
    page.page.select_option("#speed", "1000")
    page.page.click("#play")
    page.until("lab.apart > 1", seconds=60)
    page.until("document.getElementById('apart').textContent.includes('a point every')")
    page.page.click("#play")
    page.until("lab.status === 'paused' && lab.step === lab.head")
    with page.page.expect_download() as waiting:
        page.page.select_option("#save", "csv")
    steps = np.genfromtxt(waiting.value.path(), delimiter=",", names=True)["step"]
    assert steps[-1] == page.look("lab.head")
    assert max(np.diff(steps)) > 1


def test_births_and_deaths_are_marked(opened):
    page = opened("#preset=birth-death")
    assert page.look("lab.marks()") == 0
    page.page.click("#play")
    page.until("lab.marks() > 0", seconds=60)


def test_a_killed_worker_is_told_and_begins_again(opened, lab):
    page = opened(SMALL)
    listed = subprocess.run(["ps", "--ppid", str(lab.process.pid), "-o", "pid="], capture_output=True, text=True)
    children = listed.stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    page.until("lab.worker >= 1")
    page.until("lab.opened >= 2 && lab.status === 'paused'")
    page.page.click("#step")
    page.until("lab.step === 2")


SCREENS = [("light", "light", 1280), ("dark", "dark", 1280), ("narrow", "light", 768), ("phone", "dark", 390)]


@pytest.mark.parametrize(("name", "scheme", "width"), SCREENS)
def test_it_fits_screens_light_and_dark(opened, name, scheme, width, tmp_path_factory):
    page = opened(SMALL + "&function=f", width=width, color_scheme=scheme, reduced_motion="reduce")
    page.page.click("#play")
    page.until("lab.step >= 20")
    page.page.screenshot(path=str(tmp_path_factory.getbasetemp() / f"{name}.png"))
    assert page.look("document.documentElement.scrollWidth <= innerWidth + 1"), "nothing sticks out at the side"
    painted = page.look("getComputedStyle(document.body).backgroundColor")
    assert painted == (DARK if scheme == "dark" else LIGHT)
    assert page.look("document.documentElement.classList.contains('still')")


def test_without_webgl_a_canvas_draws(browser, lab, opened):
    page = opened(SMALL)
    page.page.goto(lab.address.split("?")[0] + "?plain" + SMALL)
    page.until("!!window.lab && lab.frames > 0 && lab.status === 'paused'")
    assert page.look("document.querySelector('.points').getContext('2d') !== null")
    assert pixels(page, "vanilla")
    page.page.goto(lab.address.split("?")[0] + "?webgl" + SMALL)
    page.until("!!window.lab && lab.frames > 0 && lab.status === 'paused'")
    assert page.look("document.querySelector('.points').getContext('webgl2') !== null")
    assert pixels(page, "vanilla")


def test_zz_the_page_comes_back_after_a_restart(opened, lab):
    page = opened(SMALL)
    lab.stop()
    page.until("document.getElementById('banner').textContent.includes('away')")
    lab.start()
    page.until("lab.connections >= 2 && lab.status === 'paused' && lab.opened >= 2")
    page.page.click("#step")
    page.until("lab.step === 2")
    lab.stop()
    lab.start("another-token-" + "u" * 30)
    page.until("document.getElementById('banner').textContent.includes('another token')")
    lab.stop()
    lab.start()
