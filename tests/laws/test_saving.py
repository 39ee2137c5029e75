"""Clouds and networks come back from files as they were, and say the same on new inputs."""

import importlib
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from haarflow import saving
from haarflow.algebra.groups import Cyclic
from haarflow.algebra.reps import Rep, natural_rep
from haarflow.dynamics.reduced import radial_unit
from haarflow.errors import Refusal
from haarflow.learning.readers import load
from haarflow.learning.symmetry import average
from haarflow.measures.clouds import Cloud, stack_clouds, uniform
from haarflow.members import members
from haarflow.models.kernels import Linearised, Scaled
from haarflow.models.networks import Fitted, Mean, Network
from haarflow.models.residual import Residual
from haarflow.models.units import Bump, Custom, Dense, Perceptron, Unit

DRAW = np.random.default_rng(0)
SWAP = natural_rep(Cyclic(2))
UNITS = [unit for unit, *_ in members(Unit) if not isinstance(unit, Custom)]
NETWORKS = [
    *map(Mean, UNITS),
    *(network for network, *_ in members(Network)),
    Residual((Scaled(Dense(2, 2, "tanh"), 0.7), average(Perceptron(2, 2), SWAP, SWAP))),
    Mean(Linearised(Bump(2, 1, 0.3))),
    Mean(radial_unit()),
]


@eqx.filter_jit
def answer(fitted, xs):
    return fitted(xs)


class Own(Perceptron):
    """A unit of a user, at the top of a module."""


@pytest.mark.parametrize("model", [*NETWORKS, Mean(Own(2))], ids=lambda model: f"{type(model).__name__} {model.title}")
def test_a_network_comes_back_and_says_the_same(tmp_path, model):
    weights = DRAW.dirichlet(np.ones(4))
    fitted = Fitted(model, Cloud(DRAW.normal(size=(4, model.dim)), weights))
    fitted.save(tmp_path / "network.npz")
    again = Fitted.load(str(tmp_path / "network.npz"))
    xs = DRAW.normal(size=(5, model.inputs))
    assert jax.tree.structure(again) == jax.tree.structure(fitted)
    assert [(leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(again) if isinstance(leaf, jax.Array)] == [
        (leaf.dtype, leaf.weak_type) for leaf in jax.tree.leaves(fitted) if isinstance(leaf, jax.Array)
    ]
    np.testing.assert_array_equal(answer(again, xs), answer(fitted, xs))


def test_clouds_come_back_to_the_bit(tmp_path):
    for kind in (np.float32, np.float64):
        cloud = Cloud(DRAW.normal(size=(5, 3)).astype(kind), DRAW.dirichlet(np.ones(5)).astype(kind))
        for one in (cloud, stack_clouds([cloud, cloud])):
            one.save(tmp_path / "cloud.npz")
            again = Cloud.load(tmp_path / "cloud.npz")
            assert again.atoms.dtype == kind
            np.testing.assert_array_equal(again.atoms, one.atoms)
            np.testing.assert_array_equal(again.weights, one.weights)


@pytest.mark.parametrize("rep", members(Rep), ids=str)
def test_representations_come_back(rep):
    """Averages may hold their representations."""
    arrays = {}
    content = saving._packed(rep, arrays)
    assert saving._unpacked(json.loads(json.dumps(content)), arrays, "here") == rep


def test_files_that_name_the_module_where_a_class_stood_before_are_read():
    """A tree of version 0.1.0 wrote `haarflow.models.units:Mean`."""
    for before, now in saving.MOVED.items():
        name = before.rpartition(":")[2]
        assert saving._found(*before.split(":")) is getattr(importlib.import_module(now), name)
    arrays = {}
    packed = saving._packed(Mean(Dense(2, 2)), arrays)
    packed["class"] = "haarflow.models.units:Mean"
    assert saving._unpacked(packed, arrays, "here") == Mean(Dense(2, 2))


def square(theta, x):
    return (theta @ x)[None] ** 2


def test_what_has_no_name_is_refused_with_what_to_do(tmp_path):
    cloud = uniform(np.ones((2, 2)))
    for function in (square, lambda theta, x: square(theta, x)):
        with pytest.raises(Refusal, match=r"got the function .*, which a file cannot hold. Write a Unit .*cloud.save"):
            Fitted(Custom(function, 2, 2, 1, lambda on_x, on_y: on_x), cloud).save(tmp_path / "a.npz")
    with pytest.raises(Refusal, match="got the function .*which a file cannot hold"):
        Fitted(lambda cloud, xs: xs, cloud).save(tmp_path / "a.npz")

    class Inner(Perceptron):
        """A unit inside a function."""

    with pytest.raises(Refusal, match="got an Inner, which has no name to be found by. Write the class at the top"):
        Fitted(Inner(2), uniform(np.ones((2, 4)))).save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(Refusal, match="goes to a file in a folder that exists; got a folder"):
        cloud.save(tmp_path)
    with pytest.raises(Refusal, match="which is no folder. Make the folder first"):
        cloud.save(tmp_path / "none" / "a.npz")


def changed(path, change):
    """The file again, with something changed in its header or arrays."""
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(str(arrays["haarflow"]))
    change(header, arrays)
    np.savez(path, **{**arrays, "haarflow": np.asarray(json.dumps(header))})


def forged(header, arrays):
    """A header that names another class, with the right digest."""
    header["content"]["fields"]["network"]["class"] = "os:system"
    del header["digest"]
    header["digest"] = saving._digest(header, {name: rows for name, rows in arrays.items() if name != "haarflow"})


def elsewhere(header, arrays):
    forged(header, arrays)
    del header["digest"]
    header["content"]["fields"]["network"]["class"] = "my_units:Gate"
    header["digest"] = saving._digest(header, {name: rows for name, rows in arrays.items() if name != "haarflow"})


def test_files_that_are_not_what_was_saved_are_refused(tmp_path):
    path, fitted = tmp_path / "a.npz", Fitted(Dense(2, 1), uniform(np.ones((3, 2))))

    def refused(sentence, load=Fitted.load):
        with pytest.raises(Refusal, match=sentence):
            load(path)
        fitted.save(path)

    refused("Fitted.load reads a file that is there; got .*No such file")
    changed(path, lambda header, arrays: arrays.update({"array 0": arrays["array 0"] + 1}))
    refused("which was changed or cut since. Save it again")
    changed(path, lambda header, _: header["content"]["fields"].update(network=None))
    refused("which was changed or cut since")
    changed(path, forged)
    refused("got system of the module os in a.npz, saved by haarflow .*, which is not. Import that module first")
    changed(path, elsewhere)
    refused("got Gate of the module my_units in a.npz")
    path.write_bytes(path.read_bytes()[:-40])
    refused("reads a file that haarflow saved; got a.npz, which is not one. For data write load")
    path.write_text("1,2,3")
    refused("which is not one")
    refused(r"Cloud.load reads what Cloud.save wrote; got a Fitted in a.npz. Write Fitted.load\(path\)", Cloud.load)
    refused(r"holds arrays x and y; got a Fitted .* in a.npz. Write Fitted.load\(path\)", load)


def test_files_of_other_fields_say_the_version(tmp_path):
    def older(header, arrays):
        del header["content"]["fields"]["network"]["fields"]["unit"]["fields"]["activation"]
        header.update(version="0.0.1")
        del header["digest"]
        header["digest"] = saving._digest(header, {name: rows for name, rows in arrays.items() if name != "haarflow"})

    path = tmp_path / "a.npz"
    Fitted(Dense(2, 1), uniform(np.ones((3, 2)))).save(path)
    changed(path, older)
    with pytest.raises(Refusal, match="got Dense with inputs, outputs in a.npz, saved by haarflow 0.0.1, where"):
        Fitted.load(path)


def test_a_fitted_network_checks_its_cloud_and_compiles():
    with pytest.raises(Refusal, match=r"A Dense has 4 parameters; got atoms in R\^3"):
        Fitted(Dense(2, 2), uniform(np.ones((2, 3))))
    fitted = Fitted(Dense(2, 2), uniform(DRAW.normal(size=(3, 4))))
    xs = jnp.asarray(DRAW.normal(size=(4, 2)))
    np.testing.assert_allclose(jax.jit(lambda xs: fitted(xs))(xs), fitted(xs), rtol=1e-13)
