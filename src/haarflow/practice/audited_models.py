"""Models of every kind as functions of rows in NumPy: functions, JAX, scikit-learn's estimators, modules of PyTorch."""

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from haarflow.errors import Refusal
from haarflow.values import said

Method = Literal["auto", "predict", "predict_proba", "decision_function"]
_METHODS = ("predict_proba", "decision_function", "predict")


@dataclass(frozen=True)
class Function:
    """A model on rows (b, d): `call` gives rows (b, c) in float64, and `eps` is the rounding of what it computes in.

    `precise` is the same model in float64, where that is another; `module` the module of PyTorch, where it is one.
    """

    call: Callable[[Float[np.ndarray, "b d"]], Float[np.ndarray, "b c"]]
    eps: float
    precise: Callable[[Float[np.ndarray, "b d"]], Float[np.ndarray, "b c"]] | None = None
    module: Any = None
    shape: tuple[int, ...] | None = None

    @property
    def precision(self) -> str:
        """The precision in words."""
        return {2.0**-52: "float64", 2.0**-23: "float32"}.get(self.eps, f"a precision of {self.eps:.0e}")


def as_function(model: Any, x: Float[np.ndarray, "b d"], method: Method, shape: Sequence[int] | None) -> Function:
    """What a caller gives as a model, as a function of rows; a sentence, where it is none."""
    held = None if shape is None else tuple(shape)
    if held is not None and int(np.prod(held)) != x.shape[1]:
        raise Refusal(
            f"equivariance_error's shape is that of one input, {x.shape[1]} numbers; got {held}, which are "
            f"{int(np.prod(held))}. Write a shape whose product is {x.shape[1]}."
        )
    if is_module(model):
        return _of_module(model, x, held)
    if hasattr(model, "fit") and not callable(model):
        return _of_values(_of_estimator(model, method), x, held)
    if not callable(model) or isinstance(model, type):
        raise Refusal(
            "equivariance_error's model is a function of a batch, a fitted estimator or a module of PyTorch; got "
            f"{said(model)}. Write the model itself, or lambda x: ... of a batch."
        )
    return _of_values(model, x, held)


def is_module(model: Any) -> bool:
    """Whether this is a module of PyTorch; PyTorch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _of_values(function: Callable, x, shape) -> Function:
    """A function of arrays, NumPy's or JAX's: its precision is that of what it returns."""
    kinds = []

    def call(rows):
        with _told("The model"):
            given = np.asarray(function(rows if shape is None else rows.reshape(-1, *shape)))
        kinds.append(given.dtype)
        return outputs(given, len(rows))

    call(x[:1])
    eps = float(np.finfo(kinds[0]).eps) if kinds[0].kind == "f" else 2.0**-52
    return Function(call, eps, shape=shape)


def _of_estimator(estimator: Any, method: Method) -> Callable:
    """What an estimator says of a batch: probabilities, scores, numbers, or an indicator for each class."""
    chosen = next((one for one in _METHODS if hasattr(estimator, one)), None) if method == "auto" else method
    if chosen is None or not hasattr(estimator, chosen):
        known = ", ".join(one for one in _METHODS if hasattr(estimator, one)) or "none of them"
        raise Refusal(
            f"equivariance_error asks an estimator by predict_proba, decision_function or predict; got a "
            f"{type(estimator).__name__} with {known}. Write method= one of these."
        )
    classes = getattr(estimator, "classes_", None)
    if chosen == "predict" and classes is not None:
        return lambda rows: (np.asarray(estimator.predict(rows))[:, None] == np.asarray(classes)).astype(float)
    return getattr(estimator, chosen)


def _of_module(module: Any, x, shape) -> Function:
    """A module of PyTorch: tensors in and out by DLPack, without gradients, in the precision of its parameters."""
    import torch  # pyright: ignore[reportMissingImports]

    inside = [type(part).__name__ for part in module.modules() if part.training]
    if inside:
        raise Refusal(
            f"A module of PyTorch is measured as it predicts; got one in training mode ({inside[0]}), where dropout "
            "and batch statistics are at work. Write model.eval() first."
        )
    first = next(iter([*module.parameters(), *module.buffers()]), None)
    kind = first.dtype if first is not None and first.dtype.is_floating_point else torch.float32
    device = first.device if first is not None else torch.device("cpu")

    def calling(part, dtype):
        def call(rows):
            batch = np.ascontiguousarray(rows if shape is None else rows.reshape(-1, *shape))
            with _told("The module"), torch.no_grad():
                found = part(torch.from_dlpack(batch).to(device=device, dtype=dtype))
                given = np.from_dlpack(found.detach().to("cpu", torch.float64).contiguous())
            return outputs(given, len(rows))

        return call

    precise = None if kind == torch.float64 else calling(copy.deepcopy(module).double(), torch.float64)
    found = Function(calling(module, kind), float(torch.finfo(kind).eps), precise, module, shape)
    found.call(x[:1])
    return found


@contextmanager
def _told(owner: str) -> Iterator[None]:
    """An error of the model itself, as a sentence."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise Refusal(
            f"{owner} takes a batch of inputs to a batch of outputs; got {type(error).__name__}: {words[:160]}. Fit it "
            "first, or write shape=(1, 8, 8), say, where it takes images."
        ) from error


def outputs(given: np.ndarray, b: int) -> Float[np.ndarray, "b c"]:
    """What a model returned as rows of finite numbers in float64."""
    if given.dtype.kind not in "biuf" or not given.ndim or len(given) != b or not given.size:
        raise Refusal(
            f"A model returns a row of numbers for each of {b} inputs; got {said(given)}. Write method="
            "'predict_proba' for names of classes, or a function that returns (b, c)."
        )
    rows = given.reshape(b, -1).astype(np.float64)
    if not np.isfinite(rows).all():
        raise Refusal("A model returns finite numbers; got NaN or infinity. Look at its weights and at x.")
    return rows


def listened(function: Function, x: Float[np.ndarray, "b d"], names: Sequence[str]) -> dict[str, np.ndarray]:
    """What the named layers of a module return on a batch, by forward hooks, in the order in which they are called."""
    heard: dict[str, np.ndarray] = {}
    parts = dict(function.module.named_modules())

    def hook(name):
        def hear(_, __, found):
            if hasattr(found, "detach"):
                heard[name] = np.from_dlpack(found.detach().to("cpu").double().contiguous()).copy()

        return hear

    handles = [parts[name].register_forward_hook(hook(name)) for name in names]
    try:
        function.call(x)
    finally:
        for handle in handles:
            handle.remove()
    return heard


def layer_names(function: Function, asked: Sequence[str] | None) -> list[str]:
    """The layers to listen to: those that were asked for, or all that have no layers inside."""
    if function.module is None:
        raise Refusal("`layers` looks inside a module of PyTorch; got another kind of model. Leave layers out.")
    parts = {name: part for name, part in function.module.named_modules() if name}
    strangers = [name for name in asked or () if name not in parts]
    if strangers:
        raise Refusal(
            f"`layers` names layers of the module, {', '.join(list(parts)[:8])}; got {strangers[0]!r}. Write one of "
            "these."
        )
    return list(asked) if asked is not None else [n for n, part in parts.items() if not list(part.children())]
