"""Data: laws of pairs (x, y) that hand out batches, and the readers of data files.

A batch depends on its key alone, so schemes that share a key share their data.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from haarflow.errors import Refusal
from haarflow.measures.clouds import Cloud, uniform
from haarflow.models.fits import refuse_unless_particles
from haarflow.models.units import Dense, Unit, network

Batch = tuple[Float[Array, "b d"], Float[Array, "b c"]]


class Data(eqx.Module):
    """A law of pairs (x, y)."""

    @abstractmethod
    def batch(self, key: PRNGKeyArray) -> Batch:
        """Inputs (b, d) and outputs (b, c), a function of the key alone."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence["Data"]:
        """Small members for the laws."""

    def widths(self) -> tuple[int, int]:
        """The sizes d of the inputs and c of the outputs, found without drawing any."""
        batch = jax.eval_shape(self.batch, jax.random.key(0))
        shapes = [getattr(part, "shape", None) for part in batch] if isinstance(batch, tuple | list) else []
        match shapes:
            case [(b, d), (e, c)] if b == e and b:
                return d, c
        raise Refusal(
            f"A batch of {type(self).__name__} is a pair of inputs (b, d) and outputs (b, c); got "
            f"{' and '.join(map(str, shapes)) or type(batch).__name__}. For scalar outputs write ys[:, None]."
        )


class Sample(Data):
    """A finite sample: the whole of it at every step, or `size` pairs drawn with replacement."""

    xs: Float[Array, "m d"] = eqx.field(converter=jnp.asarray)
    ys: Float[Array, "m c"] = eqx.field(converter=jnp.asarray)
    size: int | None = None

    def __check_init__(self):
        if self.xs.ndim != 2 or self.ys.ndim != 2 or len(self.xs) != len(self.ys) or not len(self.xs):
            raise Refusal(
                f"A Sample holds m >= 1 inputs (m, d) and m outputs (m, c); got {self.xs.shape} and {self.ys.shape}. "
                "For scalar outputs write ys[:, None]."
            )
        refuse_unless_positive("A batch size", self.size)

    def batch(self, key):
        if self.size is None:
            return self.xs, self.ys
        rows = jax.random.randint(key, (self.size,), 0, len(self.xs))
        return self.xs[rows], self.ys[rows]

    @classmethod
    def examples(cls):
        xs = jnp.arange(10.0).reshape(5, 2) / 7
        return [cls(xs, jnp.sin(xs)), cls(xs, xs[:, :1], size=3)]


def folds(key: PRNGKeyArray, sample: Sample, count: int) -> list[Sample]:
    """The rows of a sample dealt out at random to `count` samples of equal size: data of their own for replicates."""
    m = len(sample.xs)
    if not 1 <= count <= m:
        raise Refusal(
            f"The folds of a sample have at least one row each; got {count} folds of {m} rows. "
            f"Write a count from 1 to {m}."
        )
    rows = np.asarray(jax.random.permutation(key, m))[: m - m % count].reshape(count, -1)
    return [Sample(sample.xs[here], sample.ys[here], sample.size) for here in rows]


class Stream(Data):
    """One pass over a user's law: `law(key, size)` returns fresh inputs (size, d) and outputs (size, c)."""

    law: Callable
    size: int

    def __check_init__(self):
        refuse_unless_positive("A batch size", self.size)

    def batch(self, key):
        return self.law(key, self.size)

    @classmethod
    def examples(cls):
        def law(key, size):
            xs = jax.random.uniform(key, (size, 2))
            return xs, xs[:, :1] - xs[:, 1:]

        return [cls(law, 4)]


def _number(value):
    return None if value is None else jnp.asarray(value)


class Teacher(Data):
    """One pass over x ~ N(0, scale² I) labelled by a network, with Gaussian label noise if asked."""

    unit: Unit
    cloud: Cloud
    size: int
    scale: Float[Array, ""] = eqx.field(default=1.0, converter=jnp.asarray, kw_only=True)
    noise: Float[Array, ""] | None = eqx.field(default=None, converter=_number, kw_only=True)

    def __check_init__(self):
        refuse_unless_positive("A batch size", self.size)
        refuse_unless_particles(self.unit, self.cloud)

    def batch(self, key):
        inputs, labels = jax.random.split(key)
        xs = self.scale * jax.random.normal(inputs, (self.size, self.unit.inputs), self.cloud.atoms.dtype)
        ys = network(self.unit, self.cloud, xs)
        if self.noise is None:
            return xs, ys
        return xs, ys + self.noise * jax.random.normal(labels, ys.shape, ys.dtype)

    @classmethod
    def examples(cls):
        cloud = uniform(jnp.array([[1.0, 0.5, -0.3, 0.2], [0.1, -0.4, 0.8, 0.0]]))
        return [cls(Dense(2, 2), cloud, 3, scale=4.0), cls(Dense(2, 2), cloud, 2, noise=0.1)]


class TwoGaussians(Data):
    """One pass over labels y = ±1, equally likely, with x ~ N(0, (1 + delta y)² I): no direction tells them apart."""

    inputs: int
    delta: Float[Array, ""] = eqx.field(converter=jnp.asarray)
    size: int

    def __check_init__(self):
        refuse_unless_positive("A number of inputs", self.inputs)
        refuse_unless_positive("A batch size", self.size)

    def batch(self, key):
        labels, inputs = jax.random.split(key)
        ys = jax.random.rademacher(labels, (self.size, 1), self.delta.dtype)
        return (1 + self.delta * ys) * jax.random.normal(inputs, (self.size, self.inputs), self.delta.dtype), ys

    @classmethod
    def examples(cls):
        return [cls(3, 0.4, 5)]


def whole_sample(owner: str, data: Data, instead: str) -> Sample:
    """The data, where they are a Sample without batches; else a sentence that ends with what to write instead."""
    if not (isinstance(data, Sample) and data.size is None):
        raise Refusal(f"{owner} over a whole Sample only; got random batches. {instead}")
    return data


def refuse_unless_positive(owner: str, size: int | None):
    """A sentence, where a count is not at least one."""
    if size is not None and size < 1:
        raise Refusal(f"{owner} is a whole number >= 1; got {size}. Write 1 or more, or None for the whole sample.")


def load(path: str | Path, *, outputs: int = 1, size: int | None = None) -> Sample:
    """A Sample from an .npz file (arrays x and y) or a .csv file (its last `outputs` columns are y)."""
    path = Path(path)
    readers = {".npz": _read_npz, ".csv": _read_csv}
    if path.suffix not in readers:
        raise Refusal(f"A data file ends in .npz or .csv; got {path.name}. Save it as one of these.")
    try:
        xs, ys = readers[path.suffix](path, outputs)
    except OSError as error:
        raise Refusal(f"A data file must be readable; got {path}: {error.strerror or error}. Check the path.") from None
    for name, values in (("x", xs), ("y", ys)):
        if not np.isfinite(values).all():
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise Refusal(
                f"A data file holds finite numbers; got a NaN or infinity in {name}, row {row}, of {path.name}. "
                "Remove or fill that row."
            )
    return Sample(xs, ys, size)


def _read_npz(path: Path, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            if not {"x", "y"} <= set(arrays):
                raise Refusal(
                    f"An .npz data file holds arrays x and y; got {sorted(arrays)} in {path.name}. "
                    "Write np.savez(path, x=inputs, y=outputs)."
                )
            x, y = np.asarray(arrays["x"], float), np.asarray(arrays["y"], float)
    except (ValueError, EOFError, TypeError, BadZipFile) as error:
        if isinstance(error, Refusal):
            raise
        raise Refusal(
            f"An .npz data file holds numeric arrays x and y; got {path.name}, which does not read as one "
            f"({str(error).rstrip('.')}). Write np.savez(path, x=inputs, y=outputs)."
        ) from None
    return x.reshape(len(x), -1), y.reshape(len(y), -1)


def _read_csv(path: Path, outputs: int) -> tuple[np.ndarray, np.ndarray]:
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    rows = [line.split(",") for line in lines]
    if rows and not _numeric(rows[0]):
        rows = rows[1:]
    if not rows:
        raise Refusal(f"A .csv data file holds rows of numbers; got none in {path.name}. Write one sample a row.")
    width = len(rows[0])
    for number, row in enumerate(rows, len(lines) - len(rows) + 1):
        if len(row) != width or not _numeric(row):
            raise Refusal(
                f"A .csv data file holds {width} numbers in every row; got {','.join(row)[:60]!r} in line {number} "
                f"of {path.name}. Mend or remove that line."
            )
    if not 0 < outputs < width:
        raise Refusal(
            f"A .csv data file needs more columns than outputs; got {width} columns and outputs={outputs}. "
            f"Write outputs between 1 and {width - 1}."
        )
    table = np.array(rows, float)
    return table[:, :-outputs], table[:, -outputs:]


def _numeric(cells: list[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True
