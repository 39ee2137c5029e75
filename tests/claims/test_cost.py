"""Costs before work: settings beyond an hour or beyond memory are refused with what they would need."""

import json
import math
import time

import pytest

from haarflow.cli import answer
from haarflow.errors import Refusal
from haarflow.runs import catalogue, config, cost, machine, scheduler, workers
from haarflow.runs.experiment import Count, Experiment, Horizon, Step
from haarflow.values import machine_memory

NAMES = sorted(catalogue.catalogue())
NEEDS = r"would take about [0-9.e+]+ (years|days|hours|minutes), most of all by '{}'\. Write less, or give --force\."


@pytest.fixture(autouse=True)
def idle(monkeypatch):
    """No worker may be hired, and this process stays free of the compilation cache."""
    monkeypatch.setenv(machine.NO_CACHE, "1")
    monkeypatch.setattr(workers.Crew, "__enter__", lambda crew: pytest.fail("hired a worker"))


def whole_numbers(kind):
    """Every setting of whole numbers, and a function that puts a number in its place."""
    for name, value in kind().model_dump(mode="json").items():
        if type(value) is int:
            yield name, lambda number: number
        elif isinstance(value, list) and value and type(value[0]) is int:
            yield name, lambda number, value=value: [*value[:-1], number]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [10**18, 10**29], ids=["1e18", "1e29"])
def test_absurd_whole_numbers_are_refused_with_what_they_would_cost(name, number, tmp_path):
    kind, asked = catalogue.load(name), 0
    for setting, put in whole_numbers(kind):
        begin = time.monotonic()
        try:
            experiment = config.configure(kind, settings=[f"{setting}={json.dumps(put(number))}"])
        except Refusal:  # a rule of the experiment's own, such as "every batch divides the largest"
            continue
        with pytest.raises(Refusal, match=NEEDS.format(setting)):
            scheduler.job(experiment, 0, tmp_path)
        with pytest.raises(Refusal, match=f"{name}, setting '{setting}': whole numbers are at most 1e"):
            scheduler.job(experiment, 0, tmp_path, force=True)
        assert time.monotonic() - begin < 1
        asked += 1
    assert asked or not list(whole_numbers(kind))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_published_modes_and_anything_smaller_are_taken(name, tmp_path):
    kind = catalogue.load(name)
    for mode in ("tour", "quick", "full"):
        scheduler.job(getattr(kind, mode)(), 0, tmp_path)
    quick, full = (getattr(kind, mode)().model_dump(mode="json") for mode in ("quick", "full"))
    for setting, _ in whole_numbers(kind):
        scheduler.job(config.checked(kind, {**full, setting: min(quick[setting], full[setting])}), 0, tmp_path)


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [("langevin", "dt", 1e-12), ("langevin", "horizon", 1e12), ("propagation", "steps", [1e-3, 1e-13])],
)
def test_long_times_and_small_steps_cost_too(name, setting, value, tmp_path):
    experiment = config.configure(catalogue.load(name), settings=[f"{setting}={json.dumps(value)}"])
    with pytest.raises(Refusal, match=NEEDS.format(setting)):
        scheduler.job(experiment, 0, tmp_path)
    scheduler.job(experiment, 0, tmp_path, force=True)
    assert config.command_of(experiment, 0).endswith(" --force")


class Own(Experiment):
    """Somebody's own experiment, with settings of every shape."""

    count: int = 100
    sizes: tuple[Count, ...] = (10, 20)
    time: Horizon = 2.0
    steps: tuple[Step, ...] = (0.5, 0.25)
    weights: dict[str, int] = {}
    label: str = "x"
    flag: bool = True
    share: float = 0.5


def test_the_work_is_the_product_of_what_grows():
    sizes = {name: (round(math.exp(size.work), 9), size.most) for name, size in cost.settings(Own()).items()}
    assert sizes == {
        "count": (100, 100),
        "sizes": (30, 20),
        "time": (2, 0),
        "steps": (6, 0),
        "weights": (1, 0),
        "label": (1, 0),
        "flag": (1, 0),
        "share": (1, 0),
    }


def test_an_hour_is_the_border_of_an_experiment_without_a_larger_mode():
    cost.refuse_unless_affordable(Own(count=350_000))
    with pytest.raises(Refusal, match="test-cost takes at most an hour.* about 61 minutes, most of all by 'count'"):
        cost.refuse_unless_affordable(Own(count=366_000))
    cost.refuse_unless_affordable(Own(count=366_000), force=True)
    cost.refuse_unless_affordable(Own(count=0, share=1e300))
    with pytest.raises(Refusal, match="years, most of all by 'weights'"):
        cost.refuse_unless_affordable(Own(weights={"a": 10**400}))
    with pytest.raises(Refusal, match="years, most of all by 'steps'"):
        cost.refuse_unless_affordable(Own(steps=(1e-320,)))


def test_what_does_not_fit_into_memory_is_refused_with_its_size():
    many = machine_memory() // 10
    with pytest.raises(
        Refusal, match=r"half of this machine's memory, .*; at one number each, 'particles' alone would"
    ):
        cost.refuse_unless_affordable(catalogue.load("wide")(particles=many))


@pytest.mark.parametrize(
    ("log", "words"), [(math.log(90), "90 seconds"), (math.log(7200), "2 hours"), (2000.0, "years")]
)
def test_times_are_told_in_words(log, words):
    assert cost.in_time(log).endswith(words)


def test_the_command_line_refuses_and_makes_nothing(tmp_path, capsys):
    for words in (
        ["run", "wide", "--set", f"particles={10**18}"],
        ["run", "strong-invariance", "--set", "alpha=1e-15"],
    ):
        assert answer([*words, "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert "Write less, or give --force." in said.err
    file = tmp_path / "sweep.toml"
    file.write_text('experiment = "wide"\n[sweep]\nparticles = [1000, 1000000000000000000]\n')
    assert answer(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2
    assert "most of all by 'particles'" in capsys.readouterr().err
    values = ", ".join(map(str, range(1, 101)))
    file.write_text(f'experiment = "wide"\n[sweep]\nparticles = [{values}]\nbatch = [{values}]\nsteps = [{values}]\n')
    assert answer(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2
    assert "A sweep is at most 100000 runs; " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
