"""A sentence that tells a caller what to write names something that is there."""

import ast
import builtins
import re
from pathlib import Path

import haarflow
from haarflow import experiments
from haarflow.contents import addresses

SOURCE = Path(haarflow.__file__).parent
CALL = re.compile(r"[Ww]rite (?:for (?:instance|example) )?`?((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\(")

ARGUMENTS = {"field", "rep"}  # what the caller holds in hand
OTHERS = {"array", "jax", "np", "jnp", "pd", "plt", "torch", "optax", "OneVsRestClassifier"}  # of other libraries


def parsed():
    return {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def told(trees):
    """The calls that the sentences of the library tell to write, and where; a formatted name is left out."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for call in CALL.findall(node.value):
                    yield call, f"{path.name}:{node.lineno}"


def test_what_a_refusal_tells_to_write_is_there():
    """A function by its public name; a method by a name that some class of the library gives a method."""
    trees = parsed()
    public = {address.rpartition(".")[2] for address in addresses()} | set(dir(builtins))
    methods = {
        one.name
        for tree in trees.values()
        for cls in ast.walk(tree)
        if isinstance(cls, ast.ClassDef)
        for one in cls.body
        if isinstance(one, ast.FunctionDef)
    }
    calls = list(told(trees))
    assert len(calls) > 100
    known = public | methods | set(dir(experiments)) | ARGUMENTS
    strange = [
        f"{where} {call}"
        for call, where in calls
        if call.split(".")[0] not in OTHERS and call.rpartition(".")[2] not in known
    ]
    assert not strange, "\n".join(strange)
