"""A storm of bad calls on every public name: only a right answer or a Refusal may come back.

It runs in processes of its own: without the checks of types that the other tests install, which would hide raw errors,
and within limits on time and memory. `storm/storm.py` says how to repeat it and how to draw more.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STORM = Path(__file__).parent / "storm"


def storm(*words):
    """What the storm tells of these calls."""
    command = [sys.executable, STORM / "storm.py", *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("calls", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_bad_calls_of_public_names_are_refused_and_no_name_is_forgotten(calls):
    """Of all names a call each in the slow tier."""
    told = storm("--calls", calls, "--seed", 12, "--bad")
    assert told["gaps"] == []
    assert told["calls"] >= calls
    assert told["faults"] == 0, told["told"]


@pytest.mark.slow
def test_every_bent_call_is_answered_rightly_or_refused():
    """The right calls first: a name that refuses those too would weather any storm. Some 12000 calls, 4 minutes."""
    told = storm("--seed", 12, "--right")
    assert told["calls"] > 10_000
    assert told["faults"] == 0, told["told"]


@pytest.fixture
def answers(monkeypatch):
    """The modules of the storm, on the path while a test runs."""
    monkeypatch.syspath_prepend(STORM)
    import answers

    return answers


@pytest.mark.parametrize(
    ("source", "verdict", "word"),
    [
        ("[][0]", "bad", "RAW"),
        ("[][0]", "fine", "RAW"),
        ("[][0]", "traced", "RAW"),
        ("3.0", "bad", "ACCEPTED"),
        ("3.5", "same", "DIFFERS"),
        ("3.0 + 1e-9", "same", "DIFFERS"),
        ("(3.0, 3.0)", "same", "DIFFERS"),
        ("'three'", "fine", "KIND"),
        ("np.nan", "fine", "NAN"),
        ("hf.Cyclic(0)", "bad", None),
        ("hf.Cyclic(0)", "same", None),
        ("np.float32(3.0)", "same", None),
        ("4.0", "fine", None),
        ("4.0", "traced", None),
    ],
)
def test_a_planted_fault_is_seen(answers, source, verdict, word):
    fault = answers.Judge({"three": "3.0"}).fault(answers.Call("planted", "nothing", source, verdict, 1e-12), "three")
    assert (fault and fault.word) == word, fault


@pytest.mark.parametrize(
    ("sentence", "word"),
    [
        ("A size is a whole number; got 2.5. Write 2.", None),
        ("A size is a whole number; got 2.5", "full stop"),
        ("A size is a whole number.", "what was got"),
        (f"A size is a whole number; got {'9' * 600}.", "letters"),
        ("A size is a whole number; got:\n2.5.", "lines"),
        ("No. No. No. A size; got 2.5.", "sentences"),
    ],
)
def test_a_refusal_is_read_as_prose(answers, sentence, word):
    fault = answers.prose(sentence)
    assert (fault is None) if word is None else (word in fault.detail)


@pytest.mark.slow
def test_a_call_that_takes_too_much_costs_only_itself(monkeypatch, answers):
    monkeypatch.setenv("PYTHONPATH", str(STORM.parents[2] / "src"))
    import storm as calls

    sources = ["np.ones(10**12)", "__import__('os').abort()", "all(i >= 0 for i in range(10**18))", "hf.Cyclic(0)"]
    with calls.Helper() as helper:
        faults = [helper.ask(0, answers.Call("planted", "nothing", source, "bad", 0.0)) for source in sources]
    assert [fault and fault.word for fault in faults] == ["RAW", "CRASH", "LATE", None]


@pytest.mark.slow
def test_memory_that_earlier_calls_have_filled_is_not_blamed_on_the_next(monkeypatch, answers):
    monkeypatch.setenv("PYTHONPATH", str(STORM.parents[2] / "src"))
    import storm as calls

    with calls.Helper() as helper:
        for source in ["np.__dict__.setdefault('kept', np.ones(2**28))", "np.ones(2**28).sum()", "3.0"]:
            assert helper.ask(0, answers.Call("planted", "nothing", source, "traced", 0.0)) is None
        assert helper.begun == 2
