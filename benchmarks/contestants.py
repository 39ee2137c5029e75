"""The same noisy SGD, written as each library's users would write it: `make(task, n)` returns `run(steps)`.

Published task: sigmoid(z x) on R², batch 20, square loss, plain or averaged over the swap of coordinates. Wide task:
a tanh(<w, x> + b) on R^64, batch 64, half square loss. Float32, penalty and Gaussian noise in every one of them.
"""

import math
from collections.abc import Callable

import numpy as np

PUBLISHED, AVERAGED, WIDE = "published", "averaged", "wide"
TAU, BETA, DT = 1e-4, 1e-6, 0.01
ATOMS = 0.5 * np.array(
    [(-1, 0, 0, 0.5), (0.5, 1, 0, 1), (-0.5, 0.3, 1, 0), (0, -1, -0.5, 1), (0.7, -0.7, 0.5, 0.7)], np.float32
)
TARGET = np.random.default_rng(1).normal(size=64).astype(np.float32) / 8
Run = Callable[[int], None]


def start(task: str, n: int) -> np.ndarray:
    """The same first particles for everyone."""
    return np.random.default_rng(0).normal(size=(n, 66 if task == WIDE else 4)).astype(np.float32) / 4


def haarflow(task: str, n: int) -> Run:
    """The library, through its one loop."""
    import jax
    import jax.numpy as jnp

    import haarflow as hf

    swap = hf.natural_rep(hf.Cyclic(2))
    kind = np.float64 if jax.config.read("jax_enable_x64") else np.float32
    if task == WIDE:
        unit, loss = hf.Perceptron(64, 1, "tanh"), "half-square"

        def law(key, size):
            xs = hf.extend.gaussian(key, (size, 64), jnp.float32)
            return xs, jnp.tanh(xs @ TARGET)[:, None]

        data = hf.Stream(law, 64)
    else:
        unit, loss = hf.Dense(2, 2, "sigmoid"), "square"
        data = hf.Teacher(unit, hf.uniform(ATOMS.astype(kind)), 20, scale=4.0)
    trained = hf.average(unit, swap, swap) if task == AVERAGED else unit
    field = hf.Descend(hf.Risk(trained, data, loss) + hf.Penalty(2 * TAU))
    cloud, key = hf.uniform(start(task, n).astype(kind)), jax.random.key(0)

    def run(steps):
        options = {"dt": DT, "steps": steps, "progress": False, "devices": jax.device_count()}
        path = hf.flow(field, hf.Langevin(hf.Euler(), BETA), cloud, key=key, **options)
        path.cloud.atoms.block_until_ready()

    return run


def closed(task: str, n: int) -> Run:
    """Ours on an orbit-closed cloud and orbit-closed data under a group of eight: whole, or reduced to its orbits."""
    import jax
    import jax.numpy as jnp

    import haarflow as hf

    plane, unit = hf.natural_rep(hf.Hyperoctahedral(2)), hf.Dense(2, 2, "tanh")
    xs = jax.random.normal(jax.random.key(0), (16, 2))
    field = hf.Descend(hf.Risk(unit, hf.orbit_closure(hf.Sample(xs, jnp.sin(xs)), plane, plane)))
    cloud = hf.uniform(start(PUBLISHED, n // 8)).orbit(unit.action(plane, plane))
    if task == "reduced":
        small = hf.exact.reduce_by_orbits(field, cloud, plane, plane)
        field, cloud = small.field, small.cloud

    def run(steps):
        path = hf.flow(field, hf.Euler(), cloud, key=jax.random.key(0), dt=DT, steps=steps, progress=False)
        path.cloud.atoms.block_until_ready()

    return run


def pictures(task: str, n: int) -> Run:
    """Ours on 28 × 28 images in batches of 128: plain, or each image turned by a random element of eight."""
    import jax

    import haarflow as hf

    rng = np.random.default_rng(0)
    data = hf.Sample(
        rng.standard_normal((4096, 784), np.float32), np.eye(10, dtype=np.float32)[rng.integers(10, size=4096)], 128
    )
    if task == "augmented":
        on_x = hf.image_rep("dihedral", 28, 28)
        data = hf.augment(data, on_x, hf.trivial_rep(on_x.group, 10))
    field = hf.Descend(hf.Risk(hf.Perceptron(784, 10, "relu"), data, "cross-entropy"))
    cloud, key = hf.uniform(rng.standard_normal((n, 795), np.float32) / 28), jax.random.key(0)

    def run(steps):
        path = hf.flow(field, hf.Euler(), cloud, key=key, dt=DT, steps=steps, progress=False)
        path.cloud.atoms.block_until_ready()

    return run


def plain_jax(task: str, n: int) -> Run:
    """One particle as a function, vmapped and differentiated; the loop compiled."""
    import jax
    import jax.numpy as jnp

    def unit(theta, x):
        if task == WIDE:
            return theta[:1] * jnp.tanh(theta[1:65] @ x + theta[65])
        return jax.nn.sigmoid(theta.reshape(2, 2) @ x)

    def network(thetas, x):
        return jax.vmap(unit, (0, None))(thetas, x).mean(0)

    def model(thetas, x):
        if task == AVERAGED:
            return (network(thetas, x) + network(thetas, x[::-1])[::-1]) / 2
        return network(thetas, x)

    def batch(key):
        if task == WIDE:
            xs = jax.random.normal(key, (64, 64))
            return xs, jnp.tanh(xs @ TARGET)[:, None]
        xs = 4 * jax.random.normal(key, (20, 2))
        return xs, jax.vmap(lambda x: network(jnp.asarray(ATOMS), x))(xs)

    def loss(thetas, xs, ys):
        errors = jnp.sum((jax.vmap(lambda x: model(thetas, x))(xs) - ys) ** 2, axis=1)
        return jnp.mean(errors) * (0.5 if task == WIDE else 1.0) + TAU * jnp.sum(thetas**2) / n

    def step(k, thetas):
        data, noise = jax.random.split(jax.random.fold_in(jax.random.key(0), k))
        slope = n * jax.grad(loss)(thetas, *batch(data))
        return thetas - DT * slope + math.sqrt(2 * BETA * DT) * jax.random.normal(noise, thetas.shape)

    advance = jax.jit(lambda thetas, steps: jax.lax.fori_loop(0, steps, step, thetas))
    thetas = jnp.asarray(start(task, n))
    return lambda steps: advance(thetas, steps).block_until_ready()


def numpy(task: str, n: int) -> Run:
    """The gradient by hand, one array operation after the other."""
    rng = np.random.default_rng(0)
    thetas = start(task, n)
    sqrt = np.float32(math.sqrt(2 * BETA * DT))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def dense(z, xs):
        return sigmoid(z.reshape(-1, 2) @ xs.T).reshape(len(z), 2, -1)

    def slope_published(thetas):
        xs = 4 * rng.standard_normal((20, 2), np.float32)
        ys = dense(ATOMS, xs).mean(0)
        if task == AVERAGED:
            xs = np.concatenate([xs, xs[:, ::-1]])
        values = dense(thetas, xs)
        outputs = values.mean(0)
        if task == AVERAGED:
            half = (outputs[:, :20] + outputs[::-1, 20:]) / 2
            error = (2 / 20) * (half - ys)
            error = np.concatenate([error, error[::-1]], axis=1) / 2
        else:
            error = (2 / 20) * (outputs - ys)
        local = values * (1 - values) * error
        return (local.reshape(-1, len(xs)) @ xs).reshape(-1, 4) + 2 * TAU * thetas

    def slope_wide(thetas):
        xs = rng.standard_normal((64, 64), np.float32)
        ys = np.tanh(xs @ TARGET)
        a, w, b = thetas[:, 0], thetas[:, 1:65], thetas[:, 65]
        hidden = np.tanh(w @ xs.T + b[:, None])
        error = (a @ hidden / n - ys) / 64
        local = a[:, None] * (1 - hidden**2) * error
        slope = np.empty_like(thetas)
        slope[:, 0], slope[:, 1:65], slope[:, 65] = hidden @ error, local @ xs, local.sum(1)
        return slope + 2 * TAU * thetas

    slope = slope_wide if task == WIDE else slope_published

    def run(steps):
        nonlocal thetas
        for _ in range(steps):
            thetas = thetas - np.float32(DT) * slope(thetas) + sqrt * rng.standard_normal(thetas.shape, np.float32)

    return run


def numba(task: str, n: int) -> Run:
    """Loops over particles on all cores, compiled; a normal at a time."""
    from loops import published, wide

    rng = np.random.default_rng(0)
    thetas = start(task, n)
    sqrt = np.float32(math.sqrt(2 * BETA * DT))

    def step_published():
        xs = 4 * rng.standard_normal((20, 2), np.float32)
        ys = (1 / (1 + np.exp(-ATOMS.reshape(-1, 2) @ xs.T))).reshape(5, 2, -1).mean(0)
        published(thetas.reshape(n, 2, 2), xs, ys, task == AVERAGED, DT, TAU, sqrt)

    def step_wide():
        xs = rng.standard_normal((64, 64), np.float32)
        wide(thetas, xs, np.tanh(xs @ TARGET), DT, TAU, sqrt)

    step = step_wide if task == WIDE else step_published

    def run(steps):
        for _ in range(steps):
            step()

    return run


def torch_eager(task: str, n: int) -> Run:
    """Parameters with gradients, backward, and an update without them."""
    return _torch(task, n, lambda function: function)


def torch_compiled(task: str, n: int) -> Run:
    """The same, with the loss compiled."""
    import torch

    return _torch(task, n, torch.compile)


def _torch(task: str, n: int, compiled) -> Run:
    import torch

    torch.manual_seed(0)
    atoms, target = torch.from_numpy(ATOMS).reshape(-1, 2, 2), torch.from_numpy(TARGET)
    first = torch.from_numpy(start(task, n))
    if task == WIDE:
        parameters = [first[:, 0].clone(), first[:, 1:65].clone(), first[:, 65].clone()]
    else:
        parameters = [first.reshape(-1, 2, 2).clone()]
    for parameter in parameters:
        parameter.requires_grad_()

    def network(z, xs):
        return torch.sigmoid(torch.einsum("nij,bj->nib", z, xs)).mean(0).T

    def batch():
        if task == WIDE:
            xs = torch.randn(64, 64)
            return xs, torch.tanh(xs @ target)
        xs = 4 * torch.randn(20, 2)
        return xs, network(atoms, xs)

    def published_loss(xs, ys, z):
        outputs = network(z, xs)
        if task == AVERAGED:
            outputs = (outputs + network(z, xs.flip(1)).flip(1)) / 2
        return ((outputs - ys) ** 2).sum(1).mean()

    def wide_loss(xs, ys, a, w, b):
        hidden = torch.tanh(torch.addmm(b[:, None], w, xs.T))
        return ((a @ hidden / n - ys) ** 2).mean() / 2

    loss = compiled(wide_loss if task == WIDE else published_loss)
    scale = math.sqrt(2 * BETA * DT)

    def run(steps):
        for _ in range(steps):
            xs, ys = batch()
            (n * loss(xs, ys, *parameters)).backward()
            with torch.no_grad():
                for parameter in parameters:
                    parameter.mul_(1 - 2 * TAU * DT).sub_(DT * parameter.grad).add_(
                        torch.randn_like(parameter), alpha=scale
                    )
                    parameter.grad = None

    return run


CONTESTANTS = {
    "haarflow": haarflow,
    "plain JAX": plain_jax,
    "NumPy": numpy,
    "numba": numba,
    "PyTorch eager": torch_eager,
    "torch.compile": torch_compiled,
}
NEEDS = {"plain JAX": "jax", "numba": "numba", "PyTorch eager": "torch", "torch.compile": "torch"}
