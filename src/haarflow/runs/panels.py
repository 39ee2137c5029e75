"""Pictures as methods: `@panel("title", "caption with {fields}")` draws on axes, `@film(...)` frame by frame.

@panel("How far from equivariant", "Mean over {repetitions} repetitions.", rows=TEACHERS)
def asymmetry(self, axis, data, teacher):
    power_laws(axis, data.asymmetry.sel(teacher=teacher), along="n", by="scheme")
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from haarflow.errors import Refusal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Method = TypeVar("Method", bound=Callable[..., Any])
Labels = int | str | Sequence[Any] | None
WIDTH, HEIGHT = 8.4, 3.8


@dataclass(frozen=True)
class Panel:
    """One picture of the report: `draw` fills an empty matplotlib Figure of `size` inches.

    A film also has a `movie`, which prepares a Figure and returns the function that shows one of its `frames`.
    """

    title: str
    caption: str
    draw: "Callable[[Figure], None]"
    size: tuple[float, float] = (WIDTH, HEIGHT)
    movie: "Callable[[Figure], Callable[[int], None]] | None" = None
    frames: int = 1

    @classmethod
    def film(
        cls,
        title: str,
        caption: str,
        movie: "Callable[[Figure], Callable[[int], None]]",
        frames: int,
        *,
        size: tuple[float, float] = (WIDTH, HEIGHT),
    ) -> "Panel":
        """A moving picture; where nothing can move, its last frame is drawn."""
        return cls(title, caption, lambda figure: movie(figure)(frames - 1), size, movie, frames)


@dataclass(frozen=True)
class Drawing:
    """What `@panel` and `@film` say of a method; `panel` is the picture of one experiment's data."""

    title: str
    caption: str
    rows: Labels = None
    columns: Labels = None
    mosaic: str | None = None
    size: tuple[float, float] | None = None
    when: Callable[[Any, Any], bool] | None = None
    frames: int | Callable[[Any], int] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def words(self, experiment: Any) -> tuple[str, str]:
        """The title and the caption, filled in from the experiment's fields."""
        fields = _Fields(experiment)
        return self.title.format_map(fields), self.caption.format_map(fields)

    def panel(self, experiment: Any, method: Callable[..., Any], data: Any) -> Panel:
        """The method as a picture, its caption filled in from the experiment's fields."""
        title, caption = self.words(experiment)
        rows, columns = (_chosen(experiment, one) for one in (self.rows, self.columns))
        height = HEIGHT if _count(rows) == 1 else 3.2 * _count(rows)
        size = self.size or (WIDTH, height)
        if self.frames is not None:
            frames = self.frames(data) if callable(self.frames) else self.frames
            return Panel.film(title, caption, lambda figure: method(figure, data), frames, size=size)

        def draw(figure: Any) -> None:
            if self.mosaic:
                method(figure.subplot_mosaic(self.mosaic, **self.options), data)
                return
            axes = figure.subplots(_count(rows), _count(columns), squeeze=False, **self.options)
            if isinstance(rows, int) or isinstance(columns, int):
                method(axes.ravel().tolist(), data)
                return
            for i, row in enumerate(rows or [None]):
                for j, column in enumerate(columns or [None]):
                    labels = [label for label in (row, column) if label is not None]
                    axes[i, j].set_title(", ".join(map(str, labels)))
                    method(axes[i, j], data, *labels)

        return Panel(title, caption, draw, size)


def panel(
    title: str,
    caption: str = "",
    *,
    rows: Labels = None,
    columns: Labels = None,
    mosaic: str | None = None,
    size: tuple[float, float] | None = None,
    when: Callable[[Any, Any], bool] | None = None,
    **options: Any,
) -> Callable[[Method], Method]:
    """A method `(self, axis, data)` as a picture of the report, in the order of the class.

    `rows` and `columns` are labels, or the name of a setting that lists them: the method draws each of them on an axis
    of its own, titled by the label, as `(self, axis, data, label)`. As numbers they ask for so many axes in one call,
    `(self, axes, data)`; and a `mosaic` such as "AAC;BBC" asks for axes by letter. The title and the caption may name
    fields and constants of the class, `{repetitions}`. With `when(self, data)` false there is no picture; other options
    go to matplotlib's `subplots` or `subplot_mosaic`.
    """
    drawing = Drawing(title, caption, rows, columns, mosaic, size, when, None, options)
    return lambda method: _marked(method, drawing)


def film(
    title: str,
    caption: str = "",
    *,
    frames: int | Callable[[Any], int],
    size: tuple[float, float] | None = None,
    when: Callable[[Any, Any], bool] | None = None,
) -> Callable[[Method], Method]:
    """A method `(self, figure, data)` that prepares a figure and returns the function that shows frame i.

    `frames` is how many there are, or a function of the data that tells.
    """
    drawing = Drawing(title, caption, size=size, when=when, frames=frames)
    return lambda method: _marked(method, drawing)


def drawn(experiment: Any, data: Any) -> list[Panel]:
    """The pictures of an experiment's data, in the order in which its class defines them."""
    found = []
    for name, drawing in _drawings(type(experiment)).items():
        if drawing.when is None or drawing.when(experiment, data):
            found.append(drawing.panel(experiment, getattr(experiment, name), data))
    return found


def captions(experiment: Any) -> dict[str, tuple[str, str]]:
    """The title and the caption of every picture that an experiment may draw, by the name of its method."""
    return {name: drawing.words(experiment) for name, drawing in _drawings(type(experiment)).items()}


def _drawings(kind: type) -> dict[str, Drawing]:
    return {
        name: member.drawing
        for base in reversed(kind.__mro__)
        for name, member in vars(base).items()
        if isinstance(getattr(member, "drawing", None), Drawing)
    }


def _marked(method: Any, drawing: Drawing) -> Any:
    method.drawing = drawing
    return method


def _chosen(experiment: Any, labels: Labels) -> Any:
    return getattr(experiment, labels) if isinstance(labels, str) else labels


def _count(labels: Any) -> int:
    return labels if isinstance(labels, int) else len(labels) if labels is not None else 1


class _Fields(dict):
    """The fields of an experiment, for a caption."""

    def __init__(self, experiment: Any):
        self.experiment = experiment

    def __missing__(self, name: str) -> Any:
        try:
            return getattr(self.experiment, name)
        except AttributeError:
            raise Refusal(
                f"A caption names fields of its experiment; {self.experiment.name} has no {name!r}."
            ) from None
