"""Find the tied weights.

Somebody gives you a table. Two of its columns are channels whose roles may be exchanged, together with those of two
outputs, and nobody wrote that down. A network that knew it would have half as many weights. Can the rows tell?
"""

# %% Rows of two channels and two outputs. In place of these, `hf.load("my.csv", outputs=2)` reads a file.
import numpy as np

import haarflow as hf

draw = np.random.default_rng(0)
x = 4 * draw.normal(size=(4000, 2))
own, other = x, x[:, ::-1]
y = 0.5 / (1 + np.exp(-own)) + 0.5 / (1 + np.exp(1.5 * other - 0.5 * own))

# %% Half of the rows propose: a plain network is trained and the subspace is watched that training never leaves, and a
# small library of groups is tried. The other half confirm or refute, so that a chance find is not called a symmetry.
found = hf.practice.search_symmetry(x, y, key=0)
print(found)

# %% The pattern that training showed: a row for each output, a column for each input; the same letter is the same
# weight. It is what `haarflow discover` draws.
for row in found.pattern:
    print(*row)

# %% What was confirmed is a group, ready for whatever takes one: here a check of its own, on all rows.
on_x, on_y = found.to_group()
checked = hf.check_symmetry(x, y, on_x, on_y, key=1)
print(checked.verdict)

# %% The pictures: tied weights, and the cost of every candidate that held-out rows were asked about.
import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=(1, 2))
found.draw_sharing(axes[0])
found.draw(axes[1])
figure.savefig("find_tied_weights.png", dpi=100)

# %% What to take home: a search can only propose. Where rows are few the answer is *too few rows*, and it says which
# break could not have been seen. The page docs/discover.md has what to trust.
