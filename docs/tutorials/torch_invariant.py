"""Is my torch model invariant?

A convolutional network sorts small images into two kinds, and a left–right flip should not matter. We ask three
questions: how far is the network from invariant, in which layer does that begin, and does training help?
"""

# %% A network as one would write it: convolutions, a stride, a linear layer on top.
import numpy as np
import torch
from sklearn.datasets import load_digits

import haarflow as hf


def network(seed: int, stride: int = 2) -> torch.nn.Module:
    """A small convolutional network for images 8 × 8, in eval mode."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, stride=stride, padding=1),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * (8 // stride) ** 2, 1),
    ).eval()


def trained(model: torch.nn.Module, x: np.ndarray, y: np.ndarray, steps: int = 60) -> torch.nn.Module:
    """The model after a few steps of Adam."""
    inputs = torch.tensor(x.reshape(-1, 1, 8, 8), dtype=torch.float32)
    labels = torch.tensor(y[:, None], dtype=torch.float32)
    descent = torch.optim.Adam(model.train().parameters(), lr=0.01)
    for _ in range(steps):
        descent.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(model(inputs), labels).backward()
        descent.step()
    return model.eval()


# %% The data: zeros and eights, whose mirror images are zeros and eights.
x, y = load_digits(return_X_y=True)
kept = np.isin(y, (0, 8))
x, y = x[kept] / 16, (y[kept] == 8).astype(float)
mirror = hf.image_rep("mirror", 8, 8)  # how the group of two elements moves rows of 64 pixels

# %% First question: how far from invariant is it, before and after training, and whose fault is it?
options = {"shape": (1, 8, 8)}  # the network takes images, not rows
model = trained(network(0), x[:200], y[:200])
found = hf.equivariance_error(model, x[200:300], mirror, before=network(0), factory=network, **options)
print(found)
for name, cent in zip(found.table()["measured"], found.table()["per cent"], strict=True):
    print(f"  {name:<16} {cent:6.2f}%")

# %% Second question: where along the network? Feature maps should be mirrored, and the last number should stay.
layers = hf.equivariance_error(model, x[200:300], mirror, layers=True, **options).layers
for name, relative in layers.items():
    print(f"  layer {name}: {100 * relative**0.5:6.2f}%")

# %% Third question: does augmenting help? Show it every image in both positions. It helps, and is not exact.
both = np.asarray(mirror.action().apply(x[:200])).reshape(-1, 64)
augmented = trained(network(0), both, np.tile(y[:200], 2))
print(hf.equivariance_error(augmented, x[200:300], mirror, **options))


# %% What is exact: averaging the outputs over the group. The verdict says so, and to which rounding.
class Averaged(torch.nn.Module):
    """A model averaged over left–right flips."""

    def __init__(self, inner: torch.nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The mean of both positions."""
        return (self.inner(images) + self.inner(images.flip(3))) / 2


print(hf.equivariance_error(Averaged(model).eval(), x[200:300], mirror, **options))
print(hf.equivariance_error(Averaged(model).double().eval(), x[200:300], mirror, **options))

# %% The picture: where the error appears.
import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
hf.equivariance_error(model, x[200:300], mirror, layers=True, **options).draw(axis)
figure.savefig("torch_invariant.png", dpi=100)
