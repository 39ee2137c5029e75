"""Flows for the tests of sharding: `divided.py OUT.npz [jumping]` runs them on all devices there are."""

import dataclasses
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import haarflow as hf
from haarflow.fast import tuning

KEY = jax.random.key(3)
UNIT = hf.Perceptron(3, 1, "tanh")
XS = jax.random.normal(jax.random.key(5), (16, 3), jnp.float32).astype(float)
if jax.device_count() == 2 and jax.process_count() == 1:  # the rows of the sample divided, as a caller would
    XS = jax.device_put(XS, NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows")))
RISK = hf.Risk(UNIT, hf.Sample(XS, jnp.sin(XS[:, :1]), size=8)) + hf.Penalty(1e-3)
EPOCHS = hf.Risk(UNIT, hf.Sample(np.asarray(XS), np.sin(np.asarray(XS)[:, :1]), size=6, replace=False))
CLOUD = hf.uniform(jax.random.normal(jax.random.key(1), (24, 5), jnp.float32).astype(float))
GROWING, NOISY = hf.Descend(RISK, growth=0.3), hf.Langevin(hf.Euler(), 1e-2)
FIELDS = {"adam": hf.Descend(RISK), "growing": hf.Descend(EPOCHS + hf.Penalty(1e-3), growth=0.3)}
SCHEMES = {"adam": hf.Langevin(hf.Optax(optax.adam(0.1)), 1e-2), "growing": NOISY}
PROBES = {"mean": lambda cloud: cloud.mean(), "first": lambda cloud: cloud.atoms[:, 0]}
GAME = hf.games.DescentAscent(lambda clouds: clouds["x"].mean() @ clouds["y"].mean()[:3], ascend="y", growth=0.5)
PLAYERS = {"x": hf.uniform(CLOUD.atoms[:4, :3]), "y": CLOUD}
EACH = hf.Each({"x": hf.Extragradient(), "y": hf.Langevin(hf.Optax(optax.adam(0.1)), 1e-2)})


def flows(devices, folder, *, jumping=False):
    """Two lanes under two keys in blocks of particles, read again from their checkpoint; two players; if asked, birth
    and death."""
    options = {"dt": 0.1, "steps": 30, "every": 10, "devices": devices, "probes": PROBES}
    usual = tuning.SUMMED, tuning.AT_ONCE
    tuning.SUMMED = tuning.AT_ONCE = 8 * 8 * 6  # bytes: eight inputs, six particles
    for _ in range(2):
        place = Path(folder) / "place.npz"
        lanes = hf.flow(FIELDS, SCHEMES, CLOUD, key=jax.random.split(KEY), checkpoint=place, **options)
    tuning.SUMMED, tuning.AT_ONCE = usual
    sides = {name: lambda clouds, name=name: clouds[name].atoms[:, 0] for name in PLAYERS}
    game = hf.flow(GAME, EACH, PLAYERS, key=KEY, **{**options, "probes": sides})
    lanes |= {name: dataclasses.replace(game, cloud=game.cloud[name], probes={}) for name in PLAYERS}
    lanes["x"].probes.update(game.probes)
    if jumping:
        lanes["jumping"] = hf.flow(GROWING, hf.BirthDeath(NOISY), CLOUD, key=KEY, **options)
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


if __name__ == "__main__":
    out, *more = map(Path, sys.argv[1:])
    found = flows(jax.device_count(), out.parent, jumping=bool(more))
    kept = arrays(found)
    spread = len(found["growing"].cloud.atoms.sharding.device_set)
    print(f"{jax.process_count()} processes, {spread} devices")
    if jax.process_index() == 0:
        np.savez(out, **kept)
