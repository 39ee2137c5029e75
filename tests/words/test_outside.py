"""What users add, each from one file outside the library: found by the laws, by the docs and by the command line."""

import json
import runpy
import sys
from pathlib import Path

import pytest

import haarflow as hf
from haarflow import cli
from haarflow.members import concrete, members
from haarflow.practice.laws import book
from haarflow.runs import catalogue

DOCS = Path(__file__).parents[2] / "docs"
GROUP = '''
import numpy as np
import haarflow as hf

class Quarter(hf.extend.Finite):
    """The quarter turns of the plane."""

    dim, order = 2, 4

    def generators(self):
        return np.array([[[0.0, -1.0], [1.0, 0.0]]])

    @classmethod
    def examples(cls):
        return [cls()]
'''
UNIT = '''
import jax.numpy as jnp
import haarflow as hf

class Ripple(hf.Unit):
    """a cos|x − m|, with particles (a, m)."""

    dim, inputs, outputs = 3, 2, 1

    def __call__(self, theta, x):
        return theta[:1] * jnp.cos(jnp.sqrt(1 + jnp.sum((x - theta[1:]) ** 2)))

    def joint(self, on_x, on_y):
        return on_y + on_x

    @classmethod
    def examples(cls):
        turns = hf.natural_rep(hf.PlanarRotations(3))
        return [(cls(), turns, hf.trivial_rep(turns.group))]
'''
LOSS = '''
import jax.numpy as jnp
import numpy as np
import haarflow as hf

class Cosh(hf.losses.Loss):
    """The sum of log cosh(f − y)."""

    name, convex = "log-cosh", True

    def __call__(self, f, y):
        return jnp.sum(jnp.logaddexp(f - y, y - f) - jnp.log(2.0))

    @classmethod
    def examples(cls):
        return [(cls(), np.array([[0.3, -1.0], [2.0, 0.5]]))]
'''
SCHEME = '''
import haarflow as hf

class Midpoint(hf.extend.Scheme):
    """The step along the tangent at half of the way."""

    order = 2

    def step(self, key, field, clouds, state, dt):
        data, _ = hf.extend.streams(key)
        middle = hf.extend.advance(clouds, field(data, clouds), dt / 2)
        return hf.extend.advance(clouds, field(data, middle), dt), state

    @classmethod
    def examples(cls):
        return [cls()]
'''
FUNCTIONAL = '''
import jax.numpy as jnp
import haarflow as hf

class Repulsion(hf.extend.Functional):
    """The mean of exp(−|θ − θ'|²) over pairs of particles."""

    def __call__(self, cloud):
        gaps = cloud.atoms[:, None, :] - cloud.atoms[None, :, :]
        return cloud.weights @ jnp.exp(-jnp.sum(gaps**2, axis=-1)) @ cloud.weights

    @classmethod
    def examples(cls):
        return [(cls(), hf.Cloud([[0.1, 0.4], [1.0, -0.3], [0.5, 0.5]], [0.5, 0.3, 0.2]))]
'''
PLAYERS = '''
import jax.numpy as jnp
import haarflow as hf

PAIR = {"cat": hf.Cloud([[0.1, 0.4], [1.0, -0.3]], [0.6, 0.4]), "mouse": hf.uniform([[0.5, 0.5]])}

class Chase(hf.games.Payoff):
    """The squared distance of the two means."""

    def __call__(self, clouds):
        return jnp.sum((clouds["cat"].mean() - clouds["mouse"].mean()) ** 2)

    @classmethod
    def examples(cls):
        return [(cls(), PAIR)]

class Pursuit(hf.extend.Field):
    """Every player goes to the mean of the other."""

    def __call__(self, key, clouds):
        cat, mouse = clouds["cat"], clouds["mouse"]
        return {
            "cat": hf.extend.Tangent(mouse.mean()[None] - cat.atoms),
            "mouse": hf.extend.Tangent(cat.mean()[None] - mouse.atoms),
        }

    @classmethod
    def examples(cls):
        return [(cls(), PAIR)]
'''
EXPERIMENT = '''
from haarflow.experiments import Count, Experiment, below, named, once, panel, stream

class Fair(Experiment):
    """A fair coin falls on both sides alike.

    Source: the law of large numbers.
    """

    flips: Count = 1000  # how often

    def design(self):
        yield self.flip, once()

    def flip(self, key):
        import jax

        return {"mean": named(jax.random.bernoulli(stream(key, "coin"), 0.5, (self.flips,)).mean())}

    def claims(self, data):
        yield below("the mean is off by", abs(float(data.mean) - 0.5), 0.2)

    @panel("Tails and heads", "The shares of {flips} flips.")
    def shares(self, axis, data):
        axis.bar([0, 1], [1 - float(data.mean), float(data.mean)])
'''
FILES = {
    "quarter": (GROUP, {"Quarter": "Group"}),
    "ripple": (UNIT, {"Ripple": "Unit"}),
    "log_cosh": (LOSS, {"Cosh": "Loss"}),
    "midpoint": (SCHEME, {"Midpoint": "Scheme"}),
    "repulsion": (FUNCTIONAL, {"Repulsion": "Functional"}),
    "chase": (PLAYERS, {"Chase": "Payoff", "Pursuit": "Field"}),
    "fair_coin": (EXPERIMENT, {"Fair": "Experiment"}),
}
# name of the law that is broken: the file, what is written in it and what should be
FAULTS = {
    "generators make all the elements": ("quarter", "dim, order = 2, 4", "dim, order = 2, 8"),
    "units are jointly equivariant": ("ripple", "return on_y + on_x", "return on_x + on_y"),
    "a loss that claims to be convex lies below its chords": ("log_cosh", "return jnp.sum(", "return -jnp.sum("),
    "weights stay a law even for a huge step": (
        "midpoint",
        "return hf.extend.advance(clouds, field(data, middle), dt), state",
        "import equinox as eqx\n"
        "        lost = lambda cloud: eqx.tree_at(lambda c: c.weights, cloud, cloud.weights * 0.9)\n"
        "        return hf.extend.map_clouds(lost, hf.extend.advance(clouds, field(data, middle), dt)), state",
    ),
    "the energy dissipates at the stated rate": (
        "repulsion",
        "    @classmethod",
        "    def variation(self, cloud):\n        found = super().variation(cloud)\n"
        "        return found._replace(velocity=-found.velocity)\n\n    @classmethod",
    ),
    "fields conserve mass": ("chase", "Tangent(mouse.mean()[None] - cat.atoms)", "Tangent(cat.atoms, cat.weights)"),
    "an experiment says its claim and its source": ("fair_coin", "Source: the law", "From the law"),
    "pictures are described by the settings": ("fair_coin", "{flips} flips", "{flops} flips"),
}


def answer(capsys, *words):
    code = cli.answer(list(words))
    return code, capsys.readouterr().out


@pytest.fixture(scope="module")
def reference():
    before = list(sys.path)
    page = runpy.run_path(str(DOCS / "make_reference.py"))["members_page"]
    sys.path[:] = before
    return page


@pytest.mark.parametrize("name", FILES)
def test_one_file_outside_is_found_by_laws_docs_and_command_line(name, tmp_path, capsys, reference):
    text, classes = FILES[name]
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    page = reference(path)
    code, out = answer(capsys, "laws", str(path), "--json")
    found = {fact["member"]: fact for fact in json.loads(out)}
    assert {member: fact["kind"] for member, fact in found.items()} == classes
    assert [law for fact in found.values() for law in fact["laws"] if not law["holds"]] == []
    assert code == 0
    for member, kind in classes.items():
        outside = [one for laws in book() for one in concrete(laws, shipped=False) if one.__name__ == member]
        cls = next(one for one in outside if getattr(sys.modules.get(one.__module__), "__file__", "") == str(path))
        assert f"## `{member}(" in page
        assert f"\n\n{kind}. {cls.__doc__.splitlines()[0]}" in page
        asked = {law.name for known, laws in book().items() if issubclass(cls, known) for law in laws}
        assert {law["law"] for law in found[member]["laws"]} == asked
        assert any(type(_first(example)) is cls for example in members(cls, shipped=False))
        assert members(cls) == []


def _first(example):
    return example[0] if isinstance(example, tuple) else example


@pytest.mark.parametrize("law", FAULTS)
def test_a_fault_outside_is_caught_and_named(law, tmp_path, capsys):
    name, right, wrong = FAULTS[law]
    assert right in FILES[name][0]
    path = tmp_path / f"{name}.py"
    path.write_text(FILES[name][0].replace(right, wrong))
    code, out = answer(capsys, "laws", str(path))
    assert code == 1
    assert f": {law}" in out
    assert "✗" in out


def test_a_loss_outside_is_given_by_its_name(tmp_path):
    (tmp_path / "log_cosh.py").write_text(LOSS)
    catalogue.import_file(tmp_path / "log_cosh.py")
    risk = hf.Risk(hf.Dense(2, 1), hf.Sample([[1.0, 2.0]], [[0.5]]), "log-cosh")
    assert type(risk.loss).__name__ == "Cosh"


def test_an_experiment_outside_is_listed_and_run(tmp_path, capsys, monkeypatch):
    (tmp_path / "fair_coin.py").write_text(EXPERIMENT)
    monkeypatch.setenv(catalogue.EXTRA, str(tmp_path))
    assert "fair-coin" in answer(capsys, "list")[1]
    assert "flips" in answer(capsys, "settings", "fair-coin")[1]
    code, out = answer(capsys, "run", "fair-coin", "--out", str(tmp_path / "out"), "--workers", "0")
    assert (code, "1 of 1 hold" in out) == (0, True)


def test_every_experiment_of_the_library_keeps_the_laws():
    from haarflow.practice.laws import findings
    from haarflow.runs import laws_of_experiments

    assert laws_of_experiments
    for name in catalogue.catalogue():
        assert [str(one) for one in findings(catalogue.load(name)) if not one.holds] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "Members are defined in a Python file; {} is nothing. Write the path of a file.py."),
        ("1 +", "A file of members is a Python file; {} cannot be imported (SyntaxError"),
        ("import nowhere_at_all", "A file of members is a Python file; {} cannot be imported (ModuleNotFoundError"),
        ("x = 1", "A file of members defines a class of one of the kinds Data, Discriminator, Domain, "),
    ],
)
def test_a_file_that_cannot_be_checked_is_answered_in_a_sentence(text, sentence, tmp_path, capsys):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    assert cli.answer(["laws", str(path)]) == 2
    assert sentence.format(path.resolve()) in capsys.readouterr().err


def test_examples_that_fail_or_are_missing_are_findings(tmp_path, capsys):
    path = tmp_path / "bare.py"
    path.write_text(SCHEME.replace("return [cls()]", "return []"))
    code, out = answer(capsys, "laws", str(path))
    assert (code, "there are none, so that nothing can be measured" in out) == (1, True)
    path.write_text(SCHEME.replace("return [cls()]", "return [cls(3)]"))
    code, out = answer(capsys, "laws", str(path))
    assert (code, "examples are members" in out and "TypeError" in out) == (1, True)


def test_the_laws_are_listed(capsys):
    code, out = answer(capsys, "laws")
    assert code == 0
    assert {"Group", "Unit", "Loss", "Functional", "Payoff", "Field", "Scheme", "Experiment"} <= set(out.split("\n"))
    assert "  units are jointly equivariant, up to 1e-12" in out
