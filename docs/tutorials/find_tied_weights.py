"""Find the tied weights: two channels whose roles may be exchanged, which nobody wrote down."""

import numpy as np

import haarflow as hf

# Rows of two channels and two outputs. In place of these, `hf.load("my.csv", outputs=2)` reads a file.
draw = np.random.default_rng(0)
x = 4 * draw.normal(size=(4000, 2))
own, other = x, x[:, ::-1]
y = 0.5 / (1 + np.exp(-own)) + 0.5 / (1 + np.exp(1.5 * other - 0.5 * own))

# Half of the rows propose, by tied weights and a small library of groups; the other half confirm or refute.
found = hf.practice.search_symmetry(x, y, key=0)
print(found)
for row in found.pattern:  # the same letter is the same weight
    print(*row)

# What was confirmed is ready for a check of its own, on all rows.
on_x, on_y = found.to_group()
print(hf.check_symmetry(x, y, on_x, on_y, key=1).verdict)
