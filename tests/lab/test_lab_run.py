"""The numbers of a run of the lab are those of the script it gives away, to the bit; what slides compiles nothing."""

import io
import json
import subprocess
import sys
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.monitoring
import numpy as np
import pytest

import haarflow as hf
from haarflow.lab import frames, lab_run, probes, worker
from haarflow.lab.lab_run import LabRun, arrays_of, columns_of, finished
from haarflow.lab.presets import PRESETS, preset
from haarflow.lab.script import as_command, as_python, as_toml
from haarflow.lab.state import acting, validated
from haarflow.lab.takeaway import as_csv, taken

SMALL = {"particles": 12, "batch": 3, "steps": 7, "every": 2, "schemes": ["vanilla", "EA"], "precision": "float64"}
TURNED = {**SMALL, "changes": [{"step": 3, "dt": 0.3, "temperature": 0.01}]}


def scripted(state):
    """What the copied script computes, here."""
    found = {"print": lambda *words: None}
    exec(compile(as_python(state), "script", "exec"), found)
    return found


def rows_of(found, lane, column):
    """A curve of the script: a segment's first row is the last one before it."""
    return np.concatenate([part[2][lane][column][bool(i) :] for i, part in enumerate(found["curves"])])


def assert_same(run, found):
    columns = columns_of(run.rows)
    for name in columns:
        if ": " in name:
            assert np.array_equal(columns[name], rows_of(found, *name.split(": ", 1)), equal_nan=True), name
    for lane in found["lanes"]:
        times = np.concatenate([part[1][lane][bool(i) :] for i, part in enumerate(found["curves"])])
        assert np.array_equal(columns["time"], times)
        players = {"": found["clouds"][lane]} if isinstance(found["clouds"][lane], hf.Cloud) else found["clouds"][lane]
        for player, cloud in players.items():
            name = f"{lane} {player}".strip()
            assert np.array_equal(arrays_of(run)[f"{name} atoms"], np.asarray(cloud.atoms))


@pytest.fixture(scope="module")
def run():
    return finished(validated(TURNED))


def test_a_run_with_a_change_has_the_numbers_of_its_script(run):
    assert [row["step"] for row in run.rows] == [0, 2, 3, 5, 7]
    found = scripted(run.state)
    assert_same(run, found)
    assert len(found["paths"]) == 2


def test_what_slides_compiles_nothing():
    """After the first turn, which other tests may have compiled or not."""
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        listen := lambda event, seconds, **_: (
            compiled.append(event) if event.endswith("backend_compile_duration") else None
        )
    )
    try:
        again = LabRun(validated({**TURNED, "seed": 5}))
        again.advance()
        again.turn({"dt": 0.6, "temperature": 0.1, "penalty": 0.3})
        again.advance()
        del compiled[:]
        again.turn({"dt": 0.7, "temperature": 0.3, "penalty": 0.2})
        again.advance()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []
    assert again.state.changes[0].step == 2


def test_what_begins_again_compiles_nothing():
    """Every control that says so, with other numbers than before; the first run of each kind may compile."""
    compiled = []

    def listen(event, seconds, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    others = {"seed": 5, "teacher_seed": 9, "input_scale": 1.5, "label_noise": 0.3, "deviation": 0.7, "every": 3}
    others |= {"centre": [0.1, 0.2, 0.3, 0.4], "spread": [1.0, 2.0, 1.0, 0.5]}
    assert set(others) == set(acting("restarts"))
    LabRun(validated(SMALL)).advance()
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for name, value in others.items():
            LabRun(validated({**SMALL, name: value})).advance()
            assert compiled == [], name
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_one_goes_back_and_on_from_there(run):
    again = finished(validated(TURNED))
    again.turn({"dt": 0.3, "temperature": 0.01}, 3)
    while again.at < 7:
        again.advance()
    assert np.array_equal(columns_of(again.rows)["vanilla: risk"], columns_of(run.rows)["vanilla: risk"])
    assert [again.nearest(step) for step in (0, 1, 2, 3, 4, 6, 7, 9)] == [0, 0, 2, 3, 3, 5, 7, 7]


def test_what_is_shown_and_taken_at_an_earlier_step_is_of_that_step(run):
    axes = frames.Axes.of(run)
    for step in (0, 2, 3, 5, 7):
        there = LabRun(run.state)
        while there.at < step:
            there.advance()
        clouds = arrays_of(there)
        assert there.at == step
        header, places = opened(frames.frame(run, axes, step, []))
        assert header["step"] == step
        seen = places.reshape(2, 2, 12)[0] / frames.UNIT * np.array(header["reach"])[:2, None]
        assert np.abs(seen - axes.seen(clouds["vanilla atoms"])).max() < 1e-4 * max(header["reach"])
        with np.load(io.BytesIO(taken(run, "npz", step)[2])) as file:
            # EA's particles are projected again where a segment begins: 1e-16 at step 3
            assert all(np.allclose(file[name], found, rtol=0, atol=1e-15) for name, found in clouds.items())


def opened(body):
    """The header and the 16-bit numbers of a frame."""
    size = int.from_bytes(body[:4], "little")
    return json.loads(body[4 : 4 + size]), np.frombuffer(body[4 + size :], "<i2")


def test_a_run_that_is_watched_between_records_has_the_same_numbers(run):
    watched, between = LabRun(validated(TURNED)), 0
    watched.end = 7
    while watched.at < 7:
        between += watched.advance(1) is None
    assert between == 3
    assert columns_of(watched.rows)["step"].tolist() == [0, 2, 3, 5, 7]
    columns = columns_of(run.rows)
    assert all(np.array_equal(found, columns[name]) for name, found in columns_of(watched.rows).items())
    assert np.array_equal(arrays_of(watched)["vanilla atoms"], arrays_of(run)["vanilla atoms"])


def played(rows_take, **more):
    """A run that plays at full speed, where a row takes so many seconds."""
    simulation = worker.Simulation(io.BytesIO())
    simulation.do_open({**SMALL, "every": 1, "steps": 40, **more})
    simulation.do_speed(1000)
    simulation.run.__class__ = type("Slow", (LabRun,), {"row_seconds": rows_take})
    simulation.do_step()
    simulation.do_play()
    while simulation.playing:
        simulation.do_credit()
        simulation.advance()
    return simulation


def test_rows_that_are_dear_are_left_out_and_those_that_stay_are_the_scripts():
    run = played(0.1, changes=[{"step": 17, "dt": 0.3}]).run  # a step takes far less than a row
    steps = [row["step"] for row in run.rows]
    assert (steps[:2], steps[-1]) == ([0, 1], 40)
    assert len(steps) < 20
    assert 17 in steps, "where something is turned, as the script does"
    assert set(run.kept) <= set(steps), "one goes back to records alone"
    found, columns = scripted(run.state), columns_of(run.rows)
    for name in columns:
        if ": " in name:
            assert np.array_equal(columns[name], rows_of(found, *name.split(": ", 1))[steps], equal_nan=True), name
    assert np.array_equal(arrays_of(run)["EA atoms"], np.asarray(found["clouds"]["EA"].atoms))


def test_rows_that_are_cheap_or_for_which_there_is_time_are_all_measured():
    assert len(played(0.001).run.rows) == 41
    slowly = played(0.1)
    slowly.speed, slowly.playing, slowly.run.end = 0.5, True, 50
    slowly.run.state = slowly.run.state.model_copy(update={"steps": 50})
    slowly.next_at = 1e12  # ahead of what is asked for
    before = len(slowly.run.rows)
    for _ in range(5):
        slowly.advance()
    assert len(slowly.run.rows) == before + 5


def test_what_a_row_costs_is_known_from_a_few_and_is_the_least_of_them(monkeypatch):
    clock = iter(range(0, 1000, 7))
    longer = SimpleNamespace(monotonic=lambda: next(clock) ** 2 / 1e6)  # each row than the last
    monkeypatch.setattr(lab_run, "time", longer)
    run, costs = LabRun(validated(SMALL)), []
    for _ in range(7):
        costs.append(run.row_seconds)
        run.advance()
    assert costs[:5] == [0.0] * 5
    assert costs[5] < costs[6] < costs[5] * 4
    assert run.row_share > 0


def test_a_row_that_was_left_out_is_measured_where_the_run_waits_or_turns():
    simulation = worker.Simulation(io.BytesIO())
    simulation.do_open({**SMALL, "every": 1, "steps": 100})
    simulation.run.__class__ = type("Slow", (LabRun,), {"row_seconds": 9.0})
    for act in (simulation.do_pause, lambda: simulation.do_turn({"dt": 0.3}), lambda: simulation.do_take("npz")):
        simulation.playing, simulation.next_at = True, 0.0
        simulation.advance()
        assert simulation.run.between
        at = simulation.run.at
        act()
        assert simulation.run.rows[-1]["step"] == simulation.run.at == at
    assert_same(simulation.run, scripted(simulation.run.state.model_copy(update={"steps": simulation.run.at})))


def test_what_is_turned_between_records_is_turned_at_one():
    """The page shows steps between records; what a script must repeat happens at records alone."""
    simulation = worker.Simulation(io.BytesIO())
    simulation.do_open({**SMALL, "every": 5, "steps": 100})
    simulation.do_play()
    simulation.recorded = 60.0  # a record so dear that every step is shown
    for act in (
        lambda: simulation.do_turn({"dt": 0.3}),
        simulation.do_pause,
        lambda: simulation.do_take("csv"),
        lambda: simulation.do_seek(0),
        simulation.do_step,
    ):
        simulation.playing = True
        simulation.do_credit()
        simulation.recorded = 60.0
        simulation.advance()
        assert simulation.run.between, "the step on show is not a record"
        act()
        assert not simulation.run.between
        assert simulation.run.at % 5 == 0
        simulation.do_seek(simulation.run.at)
    assert simulation.run.state.changes[0].step == 5
    assert_same(simulation.run, scripted(simulation.run.state.model_copy(update={"steps": simulation.run.at})))


def test_frames_hold_the_clouds_to_the_screen(run):
    axes = frames.Axes.of(run)
    header, numbers = opened(frames.frame(run, axes, run.at, []))
    numbers = numbers.reshape(2, 2, 12)  # of each lane, each axis
    assert [lane["name"] for lane in header["lanes"]] == ["vanilla", "EA"]
    assert [lane["players"][0]["weighs"] for lane in header["lanes"]] == [False, False]
    seen = numbers[0] / frames.UNIT * np.array(header["reach"])[:2, None]
    assert np.abs(seen - axes.seen(run.clouds["vanilla"].atoms)).max() < 1e-4 * max(header["reach"])
    assert np.all(numbers[1, 1] == 0), "EA lies on E^G, which the second axis is across"
    assert frames.weighed(np.array([0.5, 0.25, 0.25])).tolist() == [384, 192, 192]
    assert np.allclose(axes.matrix.T @ axes.matrix, np.eye(2))
    assert axes.names == ["along E^G 1", "across E^G 1"]


def test_the_distance_to_weak_invariance_is_that_of_the_library(run):
    cloud, action = run.clouds["vanilla"], run.problem.action
    found = eqx.filter_jit(probes._of_action(action, "vanilla")["distance to WI"])(cloud)
    assert np.isclose(float(found) ** 2, hf.distances.orbit_mmd_squared(cloud, action), rtol=1e-9)


def test_what_is_taken_away_reads_back(run):
    columns = columns_of(run.rows)
    table = np.genfromtxt(io.BytesIO(taken(run, "csv", 0)[2]), delimiter=",", names=True)
    assert np.array_equal(table["vanilla_risk"], columns["vanilla: risk"])
    with np.load(io.BytesIO(taken(run, "npz", run.at)[2])) as file:
        assert np.array_equal(file["EA atoms"], arrays_of(run)["EA atoms"])
    assert as_csv({"a,b": np.array([0.1])}) == b'"a,b"\n0.1\n'
    assert b"hf.flow(" in taken(run, "python", 0)[2]


def test_a_worker_answers_and_survives_what_it_cannot_do():
    out = io.BytesIO()
    simulation = worker.Simulation(out)
    simulation.obey(b'J{"do": "open", "state": {"particles": 0}}')
    simulation.obey(b'J{"do": "play"}')
    simulation.obey(b'J{"do": "seek", "step": 3}')
    out.seek(0)
    said = []
    while (body := worker.read(out)) is not None:
        said.append(json.loads(body[1:]))
    assert said[0]["type"] == "refused"
    assert not simulation.playing
    assert worker.read(io.BytesIO(b"\xff\xff\xff\xff123")) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if name != "many"])
def test_every_lesson_gives_the_same_numbers_as_script_toml_and_command(name, tmp_path):
    state = preset(name).model_copy(update={"steps": 23, "particles": 64})
    state = state.turned(10, {"dt": state.dt / 2})
    (tmp_path / "lab.toml").write_text(as_toml(state))
    commands = [
        [
            sys.executable,
            "-m",
            "haarflow",
            "lab",
            "--config",
            str(tmp_path / "lab.toml"),
            "--out",
            str(tmp_path / "a.npz"),
        ],
        [sys.executable, "-m", *__import__("shlex").split(as_command(state))[:-1], str(tmp_path / "b.npz")],
    ]
    for command in commands:
        subprocess.run(command, check=True, capture_output=True, text=True)
    keep = "\nnp.savez(%r, **{f'{n}: {c}': np.concatenate([p[2][n][c][bool(i):] for i, p in enumerate(curves)])"
    keep = keep % str(tmp_path / "c.npz") + " for n in lanes for c in curves[0][2][n]})\n"
    (tmp_path / "lab.py").write_text(as_python(state) + keep)
    subprocess.run([sys.executable, str(tmp_path / "lab.py")], check=True, capture_output=True, text=True)
    with np.load(tmp_path / "a.npz") as one, np.load(tmp_path / "b.npz") as two, np.load(tmp_path / "c.npz") as three:
        assert all(np.array_equal(one[key], two[key], equal_nan=True) for key in one)
        assert three.files
        assert all(np.array_equal(three[key], one[key], equal_nan=True) for key in three)
