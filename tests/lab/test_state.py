"""The state of the lab: bounds, costs, groups by words, and the round trips of links, TOML and commands."""

import itertools
import shlex
import tomllib

import numpy as np
import pytest

from haarflow.errors import Refusal
from haarflow.lab.group_words import group_of
from haarflow.lab.presets import PRESETS, preset
from haarflow.lab.script import as_command, as_link, as_python, as_toml, from_link, told
from haarflow.lab.state import LabState, acting, cost_of, validated
from haarflow.runs.config import merged, parse

TURNED = {"particles": 60, "changes": [{"step": 10, "dt": 0.2}, {"step": 15, "temperature": 0.0, "penalty": 0.5}]}
STATES = [preset(name) for name in PRESETS] + [validated(TURNED), validated({"group": "Permutations (0 1 2), (0 1)"})]
STATES.append(validated({"group": "shifts of 3 columns"}))


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.preset or state.group)
def test_a_state_survives_its_link_toml_and_command(state):
    assert from_link(as_link(state)) == state
    assert validated(tomllib.loads(as_toml(state))) == state
    words, values = shlex.split(as_command(state)), {}
    for word, setting in itertools.pairwise(words):
        if word == "--set":
            values = merged(values, parse(setting))
    assert validated(values) == state
    compile(as_python(state), "script", "exec")
    assert f"v={state.version}" in as_link(state)
    assert f"seed={state.seed}" in as_link(state)


def test_lessons_cost_what_the_lab_accepts_and_hide_parts_that_there_are():
    groups = {field.json_schema_extra["group"] for field in LabState.model_fields.values() if field.json_schema_extra}
    for name, lesson in PRESETS.items():
        cost_of(preset(name)).refuse(preset(name))
        assert set(lesson.hides) <= groups
        assert lesson.story.endswith(".")
        assert lesson.look.endswith(".")


def test_every_control_says_when_it_acts():
    kinds = [acting(kind) for kind in ("slides", "restarts", "recompiles", "looks")]
    assert sorted(name for kind in kinds for name in kind) == sorted(
        set(LabState.model_fields) - {"version", "changes", "preset"}
    )
    assert set(acting("slides")) == {"dt", "temperature", "penalty", "rate"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"particles": 200_000}, "particles"),
        ({"dt": 0}, "dt"),
        ({"dt": "fast"}, "dt"),
        ({"nonsense": 1}, "no setting 'nonsense'"),
        ({"group": "__import__('os')"}, "name is one of"),
        ({"group": "Symmetric(40)"}, "elements at most"),
        ({"group": "Cyclic(17)"}, "R\\^16 at most"),
        ({"group": "Matrices [[1,2],[3,4]]"}, "orthogonal"),
        ({"group": "rotate columns x, y"}, "finite"),
        ({"group": "/etc/group.toml"}, "name is one of"),
        ({"group": "etc/group.toml"}, "name of a file"),
        ({"growth": "re-injection"}, "without output"),
        ({"batch": 0}, "batch by batch"),
        ({"data": "upload"}, "given first"),
        ({"schemes": []}, "schemes"),
        ({"schemes": ["DA", "DA"]}, "shown once"),
        ({"changes": [{"step": 5, "dt": 1.0}, {"step": 5, "dt": 2.0}]}, "order of their steps"),
        ({"upload": "../../etc"}, "upload"),
        ({"temperature": float("nan")}, "JSON|finite|number"),
        ([1], "table of settings"),
    ],
)
def test_what_a_state_cannot_be_is_one_sentence(values, words):
    with pytest.raises(Refusal, match=words) as caught:
        validated(values)
    assert "\n" not in str(caught.value)
    assert '"version"' not in str(caught.value), "the whole state is no answer to what was got"
    assert str(caught.value)[0].isupper() or str(caught.value).startswith("lab")


def test_a_run_that_costs_too_much_says_what_it_would_cost():
    heavy = validated({"particles": 100_000, "batch": 4096, "every": 100})
    with pytest.raises(Refusal, match="about .* s"):
        cost_of(heavy).refuse(heavy)
    cost_of(validated({"particles": 100_000, "schemes": ["vanilla"], "every": 1})).refuse(LabState())


def test_links_that_are_not_links_are_refused():
    for link, words in (
        ("v=2", "version"),
        ("dt=[", "JSON"),
        ("x" * 70_000, "letters"),
        ("dt=1&v=1&q=1", "no setting"),
    ):
        with pytest.raises(Refusal, match=words):
            from_link(link)


def test_groups_by_words():
    assert group_of("Dihedral(4)").group.order == 8
    assert group_of("Cyclic(2) x Signs(1)").group.order == 4
    assert group_of("Permutations (0 1 2), (0 1)").group.order == 6
    assert group_of("flips of 2x2 images").rep.dim == 4
    assert group_of("Permutations (0 1)(2 3)").source == "hf.Permutations([(1, 0, 3, 2)])"
    assert group_of("Matrices [[0,-1],[1,0]]").group.order == 4
    assert np.allclose(group_of("Matrices [[1,0],[0,-1]]; [[-1,0],[0,1]]").group.order, 4)
    for text in (
        "",
        "Cyclic",
        "Cyclic(0)",
        "Cyclic(2) x",
        "Permutations (0 0)",
        "Permutations 0 1",
        "Matrices [[1]",
        "a.toml",
        "x",
    ):
        with pytest.raises(Refusal):
            group_of(text)


def test_turning_forgets_what_came_later():
    state = validated(TURNED).turned(12, {"dt": 0.5})
    assert [change.step for change in state.changes] == [10, 12]
    assert state.at(11).dt == 0.2
    assert state.at(12).dt == 0.5
    assert validated(TURNED).turned(0, {"dt": 0.7}).dt == 0.7
    assert told(validated({})) == {}
