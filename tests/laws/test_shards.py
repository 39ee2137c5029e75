"""A flow divided among devices, or among processes, is the same flow; and no device ever holds the whole cloud."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from haarflow.dynamics.players import Along
from haarflow.dynamics.shards import divided, mesh_of
from haarflow.errors import Refusal

SCRIPT = Path(__file__).parents[1] / "scripts" / "divided.py"
TWO = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_ENABLE_X64": "1"}


def ran(words, **more):
    done = subprocess.run(
        [sys.executable, *words], env={**os.environ, **more}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def alone(folder, **more):
    """The same flows in this process, on one device."""
    folder.mkdir()
    script = runpy.run_path(str(SCRIPT))
    return script["arrays"](script["flows"](None, folder, **more))


def equal(file, expected):
    with np.load(file) as found:
        assert set(found) == set(expected)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-10, err_msg=name)


def collectives(folder):
    """What the devices tell each other in the program of the loop, as the compiler wrote it down."""
    programs = list(folder.glob("*jit__unguarded*.cpu_after_optimizations.txt"))
    assert len(programs) == 2  # the lanes, and the players
    words = r" (all-gather|all-reduce|all-to-all|collective-permute)\("
    return {word for program in programs for word in re.findall(words, program.read_text())}


@pytest.mark.slow
def test_two_devices_give_the_flow_of_one_and_hold_no_others_particles(tmp_path):
    dump = f" --xla_dump_to={tmp_path} --xla_dump_hlo_as_text --xla_dump_hlo_module_re=.*_unguarded.*"
    said = ran([str(SCRIPT), str(tmp_path / "out.npz")], **{**TWO, "XLA_FLAGS": TWO["XLA_FLAGS"] + dump})
    assert said == "1 processes, 2 devices\n"
    equal(tmp_path / "out.npz", alone(tmp_path / "alone"))
    assert collectives(tmp_path) == {"all-reduce"}


@pytest.mark.slow
def test_two_processes_give_the_flow_of_one(tmp_path):
    words = ["-m", "haarflow", "launch", "--processes", "2", str(SCRIPT), str(tmp_path / "out.npz"), "jumping"]
    assert ran(words, JAX_ENABLE_X64="1", XLA_FLAGS="").splitlines()[-1] == "2 processes, 2 devices"
    equal(tmp_path / "out.npz", alone(tmp_path / "alone", jumping=True))


@pytest.mark.slow
def test_a_process_that_fails_ends_the_others(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("import jax, time\nif jax.process_index(): raise SystemExit(7)\ntime.sleep(600)\n")
    words = [sys.executable, "-m", "haarflow", "launch", str(script)]
    assert subprocess.run(words, capture_output=True, timeout=120).returncode == 7


def test_a_large_array_is_copied_once_and_forgotten_with_its_original(monkeypatch):
    from haarflow.dynamics import shards

    monkeypatch.setattr(shards, "_LARGE", 100)
    mesh, array, small = mesh_of(1), jnp.arange(40.0), jnp.arange(3.0)
    first, again = shards.everywhere((array, small), mesh), shards.everywhere((array, small), mesh)
    assert first[0] is again[0]
    np.testing.assert_array_equal(first[0], array)
    assert first[0].sharding.mesh == mesh
    assert len(shards._copies) == 1
    del array
    assert not shards._copies


def test_refusals(tmp_path):
    script = runpy.run_path(str(SCRIPT))
    with pytest.raises(Refusal, match=r"devices that JAX sees; got devices=3 and 1 of them\..*device_count=3"):
        script["flows"](3, tmp_path)
    with pytest.raises(Refusal, match="got devices=0 and 1"):
        mesh_of(0)
    with pytest.raises(Refusal, match="got 3 particles and 2 devices. Write a cloud of 4, or another number of"):
        divided(jnp.ones(3), Along(((0, ""),)), Mesh(np.array(jax.devices() * 2), ("particles",)))
