"""The docs are true: every Python block runs, and prints what stands below it."""

import re
from pathlib import Path

import jax
import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", re.S)
BLOCKS = [
    (page.name, i, *block)
    for page in sorted(DOCS.glob("*.md"))
    if page.name != "reference.md"  # test_reference.py
    for i, block in enumerate(BLOCK.findall(page.read_text()))
]


DEAR = {  # two seconds and more each; pages of which another block stays, and others run here
    *("gans.md-1", "discover.md-0", "sets.md-0", "extend.md-3", "extend.md-11", "extend.md-12", "function-spaces.md-1"),
    *(
        "function-spaces.md-4",
        "games.md-1",
        "games.md-2",
        "scale.md-2",
        "limits.md-0",
        "limits.md-3",
        "estimators.md-2",
    ),
}
NAMED = {f"{page}-{number}": block for block in BLOCKS for page, number in [block[:2]]}


@pytest.mark.parametrize(
    ("page", "number", "code", "printed"),
    [pytest.param(*NAMED[name], id=name, marks=[pytest.mark.slow] * (name in DEAR)) for name in NAMED],
)
def test_the_code_in_the_docs_runs(page, number, code, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"):
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
    if printed:
        assert capsys.readouterr().out == printed


PAGES = [*DOCS.rglob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", DOCS.parent / "CHANGELOG.md"]


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target, place in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text()):
            found = page.parent / target if target else page
            assert found.exists(), f"{page.name} links to {target}"
            assert not place or place in headings(found), f"{page.name} links to {target}#{place}"


def headings(page):
    """The places of a page that a link can name, as they are made of its headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_row_of_a_table_has_the_cells_of_its_head():
    """A bar inside code ends a cell, too, unless a backslash stands before it."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            counts = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(counts) == 1, f"{page.name}: {table[:200]}"


def test_the_gallery_shows_every_experiment():
    from haarflow.runs import catalogue

    page = (DOCS / "gallery.md").read_text()
    shown = set(re.findall(r"\]\(gallery/([a-z0-9-]+)\.png\)", page))
    assert shown == {entry.name for entry in catalogue.select(None)}
