"""The README is true: its example prints what it says, its commands and targets exist, its papers are the sources'."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from haarflow.cli import app
from haarflow.runs import catalogue

HERE = Path(__file__).parents[2]
README = (HERE / "README.md").read_text()
CITATION = (HERE / "CITATION.cff").read_text()


def test_the_example_prints_what_the_readme_says():
    code, printed = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S).groups()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == printed
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


@pytest.mark.parametrize("scheme", ["hf.Euler()", "hf.Optax(optax.adam(1.0))"])
def test_the_example_restricted_ends_at_rounding_from_equivariant(scheme, capsys):
    """`restrict(field, action)` in the place of the field, the start and the noise as they are; fewer steps do."""
    code = re.search(r"```python\n(.*?)```", README, re.S)[1].replace("steps=2000", "steps=50")
    for old, new in {
        "hf.Descend(hf.Risk(unit, data))": "hf.restrict(hf.Descend(hf.Risk(unit, data)), unit.action(swap, swap))",
        "hf.Euler()": scheme,
        ":.3f} from": "} from",
    }.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    exec(f"import optax\n{code}", {})
    ends = dict(re.findall(r"(\w+) training ends (\S+) from", capsys.readouterr().out))
    assert float(ends["plain"]) < 1e-14
    assert float(ends["augmented"]) > 1e-6


def rows():
    """The table of claims: experiment to the cells of its row."""
    table = re.findall(r"^\| (.+?) \| `([a-z0-9-]+)` \| (.+?) \|$", README, re.M)
    return {name: (claim, paper) for claim, name, paper in table}


def test_every_experiment_has_a_line_with_its_paper():
    assert set(rows()) == {entry.name for entry in catalogue.select(None)}


@pytest.mark.parametrize("name", [entry.name for entry in catalogue.select(None)])
def test_the_paper_of_a_claim_is_its_source(name):
    _, paper = rows()[name]
    stated = set(re.findall(r"arXiv (\d{4}\.\d{4,5})", catalogue.find(name).source))
    linked = set(re.findall(r"\[(\d{4}\.\d{4,5})\]", paper))
    assert stated <= linked
    assert linked == stated or paper.startswith("lectures, after")
    assert ("lecture" in catalogue.find(name).source) or not paper.startswith("lectures")


def test_every_paper_that_is_named_is_linked_and_the_other_way_round():
    linked = dict(re.findall(r"^\[([^\]]+)\]: (\S+) \".+\"$", README, re.M))
    named = {name for _, paper in rows().values() for name in re.findall(r"\[([^\]]+)\]", paper)}
    assert named == set(linked)
    assert all(url.endswith(name) for name, url in linked.items() if name[0].isdigit())


def test_the_commands_and_targets_exist():
    commands = {command.name for command in app.registered_commands if command.name}
    commands |= {command.callback.__name__ for command in app.registered_commands if not command.name}
    assert set(re.findall(r"`haarflow ([a-z]+)", README)) <= commands
    makefile = (HERE / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)|`make (\w+)`", README, re.M):
        assert re.search(rf"^{''.join(target)}:", makefile, re.M)


def test_the_picture_is_small():
    (path,) = re.findall(r"!\[.+?\]\((.+?)\)", README)
    assert 10_000 < (HERE / path).stat().st_size < 150_000


def test_the_citation_is_of_this_version_and_of_the_sources():
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    assert f"\nversion: {project['version']}\n" in CITATION
    assert f"\nlicense: {project['license']}\n" in CITATION
    cited = set(re.findall(r"arxiv\.org/abs/(\d{4}\.\d{4,5})", CITATION))
    sources = " ".join(entry.source for entry in catalogue.select(None))
    stated = set(re.findall(r"arXiv (\d{4}\.\d{4,5})", sources))
    assert cited == stated
    assert not re.search(r"\t|: $", CITATION, re.M)
