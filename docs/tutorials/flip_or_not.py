"""Flip or not: digits.

You have images and a model that works, and somebody says: "flip them, you get four times the data". Is that so? This
page asks the question of the handwritten digits of scikit-learn, in a few lines that you can ask of your own rows.
"""

# %% The rows. 8 × 8 grey images, a row of 64 numbers each, and the digit that each one shows.
import numpy as np
from sklearn.datasets import load_digits

import haarflow as hf

images, digits = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(images))[:240]
images, digits = images[rows] / 16, digits[rows]

# %% The symmetry, in words: left–right, up–down, and both together. Four elements; the labels stay.
flips = hf.rep_from_words("flips of 8x8 images")
print(flips.group.order, "elements on", flips.dim, "columns")

# %% Any model can be given it. `Symmetrised` augments the rows, averages the predictions, does both, or shows the model
# one representative of each orbit. What it says is then the same for an image and for its mirror images.
from haarflow.estimators import InvariantKernelClassifier, Symmetrised  # noqa: E402

model = InvariantKernelClassifier(ridge=0.1)
averaged = Symmetrised(model, "flips of 8x8 images", how="average").fit(images, digits)
mirrored = images.reshape(-1, 8, 8)[:, :, ::-1].reshape(-1, 64)
print("same answer for mirror images:", (averaged.predict(images) == averaged.predict(mirrored)).mean())

# %% But is it better? `decide` compares all ways on the same splits, with intervals that know that folds overlap.
answer = hf.decide(images, digits, "flips of 8x8 images", estimator=model, repeats=1, curve=False)
print(answer)
for name in answer.names:
    print(f"{name:24} {answer.interval(name)}")

# %% A mirrored 2 is no digit at all, and a 6 upside down is nearly a 9: averaging the predictions makes the model much
# worse. The other ways seem worse than plain too, but 240 rows are too few to be certain, and the answer says how many
# would be enough. Now the same images with a symmetry that is true: each one was flipped at random before
# we saw it, as when photographs were taken from both sides.
turned = flips.action(flips.group.draw(1, len(images))).apply_each(images)
truth = hf.decide(turned, digits, "flips of 8x8 images", estimator=model, repeats=1, curve=False)
print(truth)

# %% The pictures of both answers, side by side.
import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained", sharex=True)
for axis, one, title in zip(axes, (answer, truth), ("as they are", "flipped at random"), strict=True):
    one.draw(axis).set_title(f"digits {title}")
axes[1].set_yticklabels([])
figure.savefig("flip_or_not.png", dpi=100)

# %% What to take home: a symmetry of the world is not a symmetry of your labels. Ask the data; where they cannot tell,
# the answer says so, and how many rows would.
