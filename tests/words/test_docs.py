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


@pytest.mark.parametrize(("page", "number", "code", "printed"), BLOCKS, ids=[f"{b[0]}-{b[1]}" for b in BLOCKS])
def test_the_code_in_the_docs_runs(page, number, code, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"):
        exec(compile(code, page, "exec"), {"__name__": "__main__"})
    if printed:
        assert capsys.readouterr().out == printed


def test_links_between_pages_lead_somewhere():
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_gallery_shows_every_experiment():
    from haarflow.runs import catalogue

    page = (DOCS / "gallery.md").read_text()
    shown = set(re.findall(r"\]\(gallery/([a-z0-9-]+)\.png\)", page))
    assert shown == {entry.name for entry in catalogue.select(None)}
