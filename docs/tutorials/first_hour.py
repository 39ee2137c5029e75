"""A first hour for theorists.

The sentence that the library reads like: a cloud of particles; a unit says what one particle computes; the network is
the unit averaged over the cloud; a risk scores it; its derivative is a field; a scheme makes one step, a flow many; a
group acts. Here is each noun once, and the theorem that holds them together.
"""

# %% A cloud is a law with finitely many atoms, a unit is phi(x, theta), and the network is its mean over the law.
import jax
import numpy as np

import haarflow as hf

jax.config.update("jax_enable_x64", True)
draw = np.random.default_rng(0)
unit = hf.Perceptron(2, 1, "tanh")  # a tanh(<w, x> + b), particles (a, w, b) in R^4
cloud = hf.uniform(draw.normal(size=(60, unit.dim)))  # 60 of them
x = draw.normal(size=(200, 2))
y = np.cos(2 * np.hypot(*x.T))  # what no rotation of the plane changes
print("network:", hf.network(unit, cloud, x).shape)

# %% The risk is a functional of the law. Its first variation has a gradient at each particle: that is the velocity of
# the Wasserstein flow, and SGD is its Euler scheme.
risk = hf.Risk(unit, hf.Sample(x, y))
path = hf.flow(hf.Descend(risk), hf.Euler(), cloud, key=0, dt=0.5, steps=200, probes={"risk": risk}, every=50)
print("risk falls:", np.all(np.diff(path.probes["risk"]) < 0))

# %% A group acts on inputs and outputs, and a jointly equivariant unit carries it over to the particles.
group = hf.PlanarRotations(4)  # quarter turns
on_x, on_y = hf.natural_rep(group), hf.trivial_rep(group)
action = unit.action(on_x, on_y)
print("free parameters under the symmetry:", action.fixed_basis().shape[1], "of", unit.dim)

# %% Symmetry enters in three places. Averaging the unit (FA) gives the average of the network, Q_G f; and that is the
# network of the symmetrised law mu^G. Both to rounding:
averaged = hf.network(hf.average(unit, on_x, on_y), cloud, x)
orbit = hf.network(unit, cloud.orbit(action), x)
print("Q_G f = f of mu^G:", float(abs(averaged - orbit).max()) < 1e-12)

# %% Data augmentation (DA) over the whole group and FA have the same velocity at a weakly invariant law, the heart of
# Theorem 4: from a symmetric start both follow one path.
start = cloud.orbit(action)
da = hf.Risk(unit, hf.augment(hf.Sample(x, y), on_x, on_y, exact=True))
fa = hf.Risk(hf.average(unit, on_x, on_y), hf.Sample(x, y))
paths = hf.flow({"DA": hf.Descend(da), "FA": hf.Descend(fa)}, hf.Euler(), start, key=0, dt=0.5, steps=20)
gap = abs(paths["DA"].cloud.atoms - paths["FA"].cloud.atoms).max()
print("DA and FA stay together:", float(gap) < 1e-12)

# %% Restricting the particles to the fixed space (EA) is the third place, and here it is fatal: the fixed space has
# w = 0, so that the network is a constant. Proposition 4: building in can lose where the fixed space is small.
ea = hf.flow(hf.restrict(hf.Descend(risk), action), hf.Euler(), cloud, key=0, dt=0.5, steps=200)
print("restricted network is constant:", float(np.ptp(hf.network(unit, ea.cloud, x))) < 1e-12)

# %% The three places side by side, along one axis of the plane: what was to be learnt, what plain training and
# averaging reach in the same time, and the constant.
import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

averaged_unit = hf.average(unit, on_x, on_y)
fa_path = hf.flow(hf.Descend(fa), hf.Euler(), cloud, key=0, dt=0.5, steps=200)
line = np.stack([np.linspace(-2.5, 2.5, 101), np.zeros(101)], axis=1)
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
axis.plot(line[:, 0], np.cos(2 * abs(line[:, 0])), color="0.6", label="target")
axis.plot(line[:, 0], hf.network(unit, path.cloud, line), label="plain")
axis.plot(line[:, 0], hf.network(averaged_unit, fa_path.cloud, line), label="averaged")
axis.plot(line[:, 0], hf.network(unit, ea.cloud, line), label="restricted")
axis.set(xlabel="first coordinate")
axis.legend(ncols=2, fontsize=8)
figure.savefig("first_hour.png", dpi=100)

# %% Where to go from here: docs/choose.md for which way to use, docs/maths.md for symbol → name, `haarflow list` for
# the claims of the papers, each of which is one file that you can run.
