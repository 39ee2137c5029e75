"""Flows for the tests of sharding: `divided.py OUT.npz` runs them on all devices and says how they were divided."""

import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import haarflow as hf
from haarflow.dynamics import flow as loop
from haarflow.dynamics.shards import mesh_of
from haarflow.models import blocks

KEY = jax.random.key(3)
UNIT = hf.Perceptron(3, 1, "tanh")
XS = jax.random.normal(jax.random.key(5), (16, 3), jnp.float32).astype(float)
RISK = hf.Risk(UNIT, hf.Sample(XS, jnp.sin(XS[:, :1]), size=8)) + hf.Penalty(1e-3)
CLOUD = hf.uniform(jax.random.normal(jax.random.key(1), (24, 5), jnp.float32).astype(float))
GROWING, NOISY = hf.Descend(RISK, growth=0.3), hf.Noisy(hf.Euler(), 1e-2)
FIELDS = {"adam": hf.Descend(RISK), "jumping": GROWING}
SCHEMES = {"adam": hf.Noisy(hf.Optax(optax.adam(0.1)), 1e-2), "jumping": hf.BirthDeath(NOISY)}
PROBES = {"mean": lambda cloud: cloud.mean(), "first": lambda cloud: cloud.atoms[:, 0]}


def flows(devices, folder):
    """Two lanes under two keys, read again from their checkpoint; then growth and noise in blocks of particles."""
    options = {"dt": 0.1, "steps": 30, "every": 10, "devices": devices, "probes": PROBES}
    for _ in range(2):
        place = Path(folder) / "place.npz"
        lanes = hf.flow(FIELDS, SCHEMES, CLOUD, key=jax.random.split(KEY), checkpoint=place, **options)
    usual = blocks.SUMMED, blocks.AT_ONCE
    blocks.SUMMED = blocks.AT_ONCE = 8 * 6
    jax.clear_caches()
    lanes["blocks"] = hf.flow(GROWING, NOISY, CLOUD, key=KEY, **options)
    blocks.SUMMED, blocks.AT_ONCE = usual
    return lanes


def arrays(found):
    """The last clouds and the probes, whole."""
    from jax.experimental.multihost_utils import process_allgather

    kept = {}
    for name, path in found.items():
        cloud = process_allgather(path.cloud, tiled=True) if jax.process_count() > 1 else path.cloud
        kept |= {f"{name} atoms": np.asarray(cloud.atoms), f"{name} weights": np.asarray(cloud.weights)}
        kept |= {f"{name} {probe}": values for probe, values in path.probes.items()}
    return kept


def collectives():
    """What the devices tell each other in the program of a flow in blocks."""
    blocks.SUMMED = blocks.AT_ONCE = 8 * 6
    jax.clear_caches()
    dt, lanes = jnp.asarray(0.1), loop._lanes(GROWING, NOISY, KEY)
    state = loop._divided(loop._start(lanes, CLOUD, KEY, dt), mesh_of(2), axis=0)
    lowered = loop._advance.lower(lanes, state, KEY, dt, loop.constant, np.asarray(0), np.asarray(9))
    program = lowered.compile().compiled.as_text()
    return sorted(set(re.findall(r" (all-gather|all-reduce|all-to-all|collective-permute)\(", program)))


if __name__ == "__main__":
    out = Path(sys.argv[1])
    found = flows(jax.device_count(), out.parent)
    kept = arrays(found)
    spread = len(found["blocks"].cloud.atoms.sharding.device_set)
    print(f"{jax.process_count()} processes, {spread} devices")
    if jax.process_count() == 1:
        print(collectives())
    if jax.process_index() == 0:
        np.savez(out, **kept)
