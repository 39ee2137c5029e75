"""Which experiments there are, read from their files without importing them."""

import ast
import difflib
import fnmatch
import importlib
import importlib.util
import inspect
import os
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from haarflow.errors import Refusal

EXTRA = "HAARFLOW_EXPERIMENTS"  # folders of your own experiment files, separated as in PATH


@dataclass(frozen=True)
class Entry:
    """What `list` says of an experiment."""

    name: str
    group: str
    tour: bool
    claim: str
    source: str
    notes: str
    path: Path
    module: str

    @property
    def full_name(self) -> str:
        """The name with its heading, which `--only` matches."""
        return f"{self.group}/{self.name}"


def named_after(stem: str) -> str:
    """The command-line name of a file: weak_invariance is weak-invariance."""
    return stem.replace("_", "-")


def read_docstring(doc: str) -> dict[str, str]:
    """The claim (first paragraph), its source (the paragraph after 'Source:'), and the notes (the rest)."""
    lines = inspect.cleandoc(doc).replace("\nSource:", "\n\nSource:")
    claim, source, notes = "", "", []
    for paragraph in (" ".join(block.split()) for block in lines.split("\n\n")):
        if paragraph.startswith("Source:"):
            source = paragraph.removeprefix("Source:").strip()
        elif not claim:
            claim = paragraph
        else:
            notes.append(paragraph)
    return {"claim": claim, "source": source, "notes": "\n\n".join(notes)}


def fault_sentence(faults: Mapping[str, str]) -> str:
    """What the notes say of the mistakes that an experiment can plant."""
    if not faults:
        return ""
    told = "; ".join(f"`{name}`: {what}" for name, what in faults.items())
    return f"The field `fault` plants a mistake on purpose, to see the matching verdicts fail. {told}."


def catalogue() -> dict[str, Entry]:
    """Every experiment by name: those of the library, then those in the folders of HAARFLOW_EXPERIMENTS."""
    found: dict[str, Entry] = {}
    for folder, package in _folders():
        for path in sorted(folder.glob("[!_.]*.py")):
            entry = _read(path, package, path.stat().st_mtime_ns)
            if entry and entry.name in found:
                raise Refusal(
                    f"An experiment is named after its file, once; got {entry.name} twice, "
                    f"from {found[entry.name].path} and from {path}. Rename one of the files."
                )
            if entry:
                found[entry.name] = entry
    return dict(sorted(found.items(), key=lambda item: (item[1].group, item[0])))


def select(pattern: str | None, *, tour: bool = False) -> list[Entry]:
    """The experiments whose name or group/name matches a shell pattern."""
    entries = [entry for entry in catalogue().values() if entry.tour or not tour]
    if pattern is not None:
        everything, entries = entries, [entry for entry in entries if _matches(entry, pattern)]
        if not entries:
            choices = ", ".join(entry.full_name for entry in everything) or "nothing yet"
            raise Refusal(f"--only selects experiments by a pattern; {pattern!r} matches none of {choices}.")
    if not entries:
        raise Refusal("There are no experiments to run here; see `haarflow list`.")
    return entries


def find(name: str) -> Entry:
    """The experiment of that name, or a refusal with the nearest ones."""
    entries = catalogue()
    wanted = named_after(name)
    if wanted in entries:
        return entries[wanted]
    raise Refusal(f"There is no experiment {name!r}; {nearest(wanted, list(entries))}")


def nearest(word: str, choices: list[str]) -> str:
    """The end of a refusal: the nearest choice if there is one, and the choices."""
    close = difflib.get_close_matches(word, choices, n=1)
    listed = f"the choices are {', '.join(choices)}." if choices else "there is none to choose."
    return f"did you mean {close[0]!r}? {listed[0].upper()}{listed[1:]}" if close else listed


def load(name: str) -> Any:
    """The Experiment class of that name; this imports its file, anew if a file of your own has changed since."""
    asked = (os.environ.get(EXTRA, ""), named_after(name))
    known = _loaded.get(asked)
    if known and known.__module__ in sys.modules and not _changed(known.__module__):
        return known  # a worker asks for every part
    entry = find(name)
    module = sys.modules.get(entry.module)
    if module is None or _changed(entry.module):
        module = import_file(entry.path, entry.module)
    from haarflow.runs.experiment import Experiment
    from haarflow.runs.source import source

    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Experiment) and value.__module__ == entry.module:
            source(value)  # its code is what its files say now
            _loaded[asked] = value
            return value
    raise Refusal(f"An experiment file defines a subclass of Experiment; {entry.path} does not.")


def _folders() -> list[tuple[Path, str]]:
    library = Path(__file__).parent.parent / "experiments"
    extra = [Path(folder) for folder in os.environ.get(EXTRA, "").split(os.pathsep) if folder]
    for folder in extra:
        if not folder.is_dir():
            raise Refusal(f"{EXTRA} lists folders of experiment files; {folder} is not a folder.")
    return [(library, "haarflow.experiments"), *((folder, _package(folder)) for folder in extra)]


def _package(folder: Path) -> str:
    """A module name of its own for each folder."""
    return f"haarflow_experiments_{zlib.crc32(str(folder.resolve()).encode()):08x}"


def _matches(entry: Entry, pattern: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for name in (entry.name, entry.full_name))


class Fresh(SourceFileLoader):
    """Runs what a file says, never bytecode kept from before: two edits within a second are two programs."""

    def get_code(self, fullname: str) -> Any:
        """The file, compiled."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


_loaded: dict[tuple[str, str], Any] = {}  # the class of each name, by the folders it was looked for in
_imported: dict[str, dict[Path, int]] = {}  # the files behind each module of your own, and when they were changed


def _changed(module: str) -> bool:
    """Whether a file behind a module of your own has changed since it was imported."""
    return any(not path.exists() or path.stat().st_mtime_ns != then for path, then in _imported.get(module, {}).items())


def import_file(path: Path, name: str = "", *, what: str = "An experiment") -> Any:
    """The module that a file makes; one of your own is run anew, under a name that its folder decides."""
    name = name or f"{_package(path.parent)}.{path.stem}"
    if name.startswith("haarflow."):
        return importlib.import_module(name)
    package, _, _ = name.partition(".")
    for known in [known for known in sys.modules if known == name or known.startswith(f"{package}._")]:
        del sys.modules[known]
    sys.modules[package] = ModuleType(package)  # so that `from . import _shared` finds the files beside it
    sys.modules[package].__path__ = [str(path.parent)]
    spec = importlib.util.spec_from_loader(name, Fresh(name, str(path)))
    module = importlib.util.module_from_spec(spec)  # pyright: ignore[reportArgumentType]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)  # pyright: ignore[reportOptionalMemberAccess]
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise Refusal(f"{what} is a Python file; {path} cannot be imported ({words}).") from error
    from haarflow.runs.source import files

    _imported[name] = {path: path.stat().st_mtime_ns for path in files(path)}
    return module


@cache
def _read(path: Path, package: str, changed: int) -> Entry | None:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError, OSError) as error:
        raise Refusal(f"An experiment is a Python file; {path} cannot be read: {error}.") from error
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and "Experiment" in _bases(node)]
    if not classes:
        return None
    settings = dict(setting for node in classes[0].body for setting in _literal(node))
    words = read_docstring(ast.get_docstring(classes[0]) or "")
    words["notes"] = "\n\n".join(filter(None, [words["notes"], fault_sentence(settings.get("faults", {}))]))
    return Entry(
        name=named_after(path.stem),
        group=str(settings.get("group", "symmetry")),
        tour=bool(settings.get("tour_included", False)),
        path=path,
        module=f"{package}.{path.stem}",
        **words,
    )


def _bases(node: ast.ClassDef) -> set[str]:
    return {base.id if isinstance(base, ast.Name) else getattr(base, "attr", "") for base in node.bases}


def _literal(node: ast.stmt) -> list[tuple[str, Any]]:
    """The name and value of a plain assignment in a class body, if it is one."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    value = getattr(node, "value", None)
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or value is None:
        return []
    try:
        return [(targets[0].id, ast.literal_eval(value))]
    except ValueError:
        return []
