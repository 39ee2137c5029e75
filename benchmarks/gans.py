"""One step of a GAN on images and one group convolution, against PyTorch in eager mode: ratios, measured in turns.

`python gans.py [--rounds N]` prints a table. Both sides have the same sizes: 64 images of 16 × 16, group C4, channels
16 and 32 of all elements together, the relativistic objective with R1, two steps of the discriminator and one of the
generator, Adam. PyTorch's side is a network in the same layers, its filters turned by `torch.rot90` at every call.
"""

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import numpy as np

BATCH, SIDE, WIDTHS, LATENT = 64, 16, (16, 32), 32


def ours(row: str) -> dict[str, Callable[[], None]]:
    """A run of ten steps, and a convolution with its gradient, compiled before they are timed."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp

    from haarflow.algebra.groups import PlanarRotations
    from haarflow.dynamics.adversarial import DISCRIMINATOR, GENERATOR, parameters
    from haarflow.models.group_convolutions import GroupConvolution
    from haarflow.practice.gan_data import side_of
    from haarflow.practice.gans import GAN

    images = np.random.default_rng(0).uniform(size=(600, SIDE, SIDE))
    gan = GAN(on_x="rotations", symmetry=row, widths=WIDTHS, latent=LATENT, batch=BATCH)
    side = side_of("rotations", images)
    field, scheme = gan.field(jax.random.key(0), side, images, None, 0), gan.scheme(side)
    clouds = {GENERATOR: parameters(field.generator), DISCRIMINATOR: parameters(field.discriminator)}

    @eqx.filter_jit
    def ten(field, clouds, state, key):
        def once(k, carry):
            return scheme.step(jax.random.fold_in(key, k), field, *carry, jnp.asarray(1.0))

        return jax.lax.fori_loop(0, 10, once, (clouds, state))

    layer = GroupConvolution(jax.random.key(1), PlanarRotations(4), WIDTHS[0] // 4, WIDTHS[0] // 4)
    x = jax.random.normal(jax.random.key(2), (BATCH, SIDE, SIDE, 4, WIDTHS[0] // 4))
    slope = eqx.filter_jit(eqx.filter_grad(lambda layer, x: jnp.sum(layer(x) ** 2)))
    state = scheme.start(clouds)
    return {
        "ten steps": lambda: jax.block_until_ready(jax.tree.leaves(ten(field, clouds, state, jax.random.key(3)))),
        "group convolution": lambda: jax.block_until_ready(jax.tree.leaves(slope(layer, x))),
    }


def theirs(row: str) -> dict[str, Callable[[], None]]:
    """The same in PyTorch."""
    import torch
    from torch import nn
    from torch.nn.functional import avg_pool2d, interpolate, leaky_relu, softplus

    order = 4 if row == "both" else 1

    class Convolution(nn.Module):
        def __init__(self, i: int, o: int, size: int, *, up: bool = True, out: bool = True, pad: int = 1):
            super().__init__()
            self.up, self.out, self.pad = up, out, pad
            copies = order if up and out else 1
            fan = i * size**2 * (order if up else 1)
            self.filters = nn.Parameter(torch.randn(o, copies, i, size, size) * (2 / fan) ** 0.5)

        def forward(self, x):
            f = self.filters
            if not self.out:
                bank = torch.cat([torch.rot90(f[:, 0], g, (2, 3)) for g in range(order)], 1)
            else:
                bank = torch.cat([torch.rot90(f.roll(g, 1), g, (3, 4)).flatten(1, 2) for g in range(order)])
            return nn.functional.conv2d(x, bank, padding=self.pad)

    a, b = (width // order for width in WIDTHS)
    small = SIDE // 4

    class Generator(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(LATENT, small * small * b * order)
            self.blocks = nn.ModuleList([Convolution(b, a, 3), Convolution(a, a, 3)])
            self.last = Convolution(a, 1, 3, out=False)

        def forward(self, z):
            x = torch.relu(self.head(z)).view(-1, b * order, small, small)
            for block in self.blocks:
                x = torch.relu(block(interpolate(x / (1e-8 + x.square().mean((1, 2, 3), True)).sqrt(), scale_factor=2)))
            return torch.tanh(self.last(x / (1e-8 + x.square().mean((1, 2, 3), True)).sqrt()))

    class Discriminator(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([Convolution(1, a, 3, up=False), Convolution(a, b, 3)])
            self.whole = Convolution(b, 2 * b, small, pad=0)
            self.last = nn.Linear(2 * b, 1)

        def forward(self, x):
            for block in self.blocks:
                x = avg_pool2d(leaky_relu(block(x), 0.2), 2)
            return self.last(leaky_relu(self.whole(x), 0.2).view(len(x), order, -1).mean(1))[:, 0]

    makes, tells = Generator(), Discriminator()
    images = torch.rand(600, 1, SIDE, SIDE) * 2 - 1
    one = torch.optim.Adam(makes.parameters(), 1e-4, (0.0, 0.9))
    two = torch.optim.Adam(tells.parameters(), 4e-4, (0.0, 0.9))

    def loss(true, made):
        return (softplus(-(true - made.mean())).mean() + softplus(made - true.mean()).mean()) / 2

    def step():
        for _ in range(2):
            true = images[torch.randint(600, (BATCH,))].requires_grad_()
            scores = tells(torch.cat([true, makes(torch.randn(BATCH, LATENT)).detach()]))
            slopes = torch.autograd.grad(tells(true).sum(), true, create_graph=True)[0]
            two.zero_grad()
            (loss(scores[:BATCH], scores[BATCH:]) + 0.05 * slopes.square().sum((1, 2, 3)).mean()).backward()
            two.step()
        one.zero_grad()
        true = images[torch.randint(600, (BATCH,))]
        loss(tells(makes(torch.randn(BATCH, LATENT))), tells(true)).backward()
        one.step()

    layer, x = Convolution(WIDTHS[0] // order, WIDTHS[0] // order, 3), torch.randn(BATCH, WIDTHS[0], SIDE, SIDE)

    def convolution():
        layer.zero_grad()
        layer(x).square().sum().backward()

    return {"ten steps": lambda: [step() for _ in range(10)] and None, "group convolution": convolution}


def measured(rounds: int) -> list[dict]:
    """Seconds of both sides, and PyTorch's over ours, medians over rounds in which they take turns."""
    found = []
    for row in ("both", "plain"):
        runs = {"haarflow": ours(row), "torch": theirs(row)}
        for task in ("ten steps", "group convolution"):
            if row == "plain" and task == "group convolution":
                continue
            times = {who: [] for who in runs}
            for side in runs.values():
                side[task]()  # compiled, and warm
            for _ in range(rounds):
                for who, side in runs.items():
                    begun = time.perf_counter()
                    side[task]()
                    times[who].append(time.perf_counter() - begun)
            seconds = {who: median(values) for who, values in times.items()}
            found.append({"row": row, "task": task, **seconds, "ratio": seconds["torch"] / seconds["haarflow"]})
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    for line in measured(parser.parse_args().rounds):
        print(json.dumps(line))
