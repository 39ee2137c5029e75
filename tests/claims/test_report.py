"""The report's page: what it opens with, what is folded, what it needs; films; the same bytes each time."""

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from haarflow.cli import answer
from haarflow.errors import Refusal
from haarflow.runs import catalogue, film, machine, raster, report, scheduler, style
from haarflow.runs.experiment import Panel
from haarflow.runs.pictures import Picture

TOYS = Path(__file__).parents[1] / "toys"
VOID = {"meta", "link", "input", "br", "img"}


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Find the toy experiments, and keep this process free of the compilation cache."""
    monkeypatch.setenv(catalogue.EXTRA, str(TOYS))
    monkeypatch.setenv(machine.NO_CACHE, "1")


class Page(HTMLParser):
    """Every element of a page: its tag, attributes, words, and the tags and classes of what it stands in."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.found = [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        element = {"tag": tag, **dict(attrs), "words": "", "above": [one["tag"] for one in self.open]}
        self.found.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.found.append({"tag": tag, **dict(attrs), "words": "", "above": [one["tag"] for one in self.open]})

    def handle_endtag(self, tag):
        assert self.open.pop()["tag"] == tag

    def handle_data(self, data):
        for element in self.open:
            element["words"] += data

    def all(self, tag, **attributes):
        wanted = attributes.items()
        return [one for one in self.found if one["tag"] == tag and all(value in one.get(k, "") for k, value in wanted)]


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A folder with one record that holds and one that fails."""
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(catalogue.EXTRA, str(TOYS))
        patch.setenv(machine.NO_CACHE, "1")
        scheduler.run(catalogue.load("coin-mean")(), out=out, count=0)
        scheduler.run(catalogue.load("broken")(), out=out, count=0)
        report.report(out)
    return out


@pytest.fixture
def page(records):
    return Page((records / "report.html").read_text())


def test_the_page_opens_with_a_line_and_a_picture_of_every_experiment(page):
    assert page.all("h1")[0]["words"] == "2 of 4 claims hold"
    coins, broken = (
        next(card for card in page.all("li", **{"class": "card"}) if name in card["words"])
        for name in ("coin-mean", "broken")
    )
    assert " ".join(coins["words"].split()) == "coin-mean 2 of 2 hold The mean of n coins errs like n−1/2."
    assert "x stays below 0.5: measured not finite, wanted below 0.5" in broken["words"]
    order = [one["tag"] + one.get("class", "") for one in page.found]
    assert order.index("licard") < order.index("section")
    (again,) = [one for one in page.all("use") if "li" in one["above"]]
    ids = [one["id"] for one in page.found if "id" in one]
    assert again["href"].removeprefix("#") in ids
    assert len(ids) == len(set(ids))


def test_every_link_leads_to_its_experiment(page):
    ids = {one.get("id") for one in page.all("section")}
    links = {link["href"] for link in page.all("a")}
    assert links == {f"#{name}" for name in ids}
    assert len(ids) == 2


def test_tables_are_folded_and_those_with_a_failure_are_open(page):
    assert all("details" in table["above"] for table in page.all("table"))
    folds = [fold for fold in page.all("details") if fold["words"].strip().startswith("Verdicts")]
    assert [("open" in fold, "pigs fly" in fold["words"]) for fold in folds] == [(True, True), (False, False)]
    (every,) = page.all("details", **{"class": "every"})
    assert "open" not in every
    assert all(claim in every["words"] for claim in ("pigs fly", "the error: slope in n", "the errors are below 10"))


def test_the_words_of_the_trade_are_explained_before_anything_else(page):
    (glossary,) = page.all("dl")
    words = [one["words"] for one in page.all("dt")]
    assert words[:6] == ["vanilla", "DA", "FA", "EA", "WI", "SI"]
    assert "equivariant architecture: the particles are restricted to EG." in glossary["words"]
    tags = [one["tag"] for one in page.found]
    assert tags.index("dl") < tags.index("li")


def test_mathematics_is_typeset_in_claims_and_left_alone_in_commands(page):
    claims = [one for one in page.all("p", **{"class": "claim"}) if "coins" in one["words"]]
    assert claims[0]["words"] == "The mean of n coins errs like n−1/2."
    assert any("p" in one["above"] for one in page.all("sup"))
    assert "haarflow run coin-mean --quick --seed 0" in [one["words"] for one in page.all("pre")]


def test_on_a_phone_every_number_says_what_it_is(page):
    numbers = [one for one in page.all("td", **{"class": "number"}) if one["above"].count("details")]
    labelled = {one.get("data-label") for one in numbers}
    assert {"measured", "wanted", "number", "seconds"} <= labelled
    css = page.all("style")[0]["words"]
    narrow = css[css.index("@media (max-width: 44rem)") :]
    assert "content: attr(data-label)" in narrow
    assert page.all("meta", name="viewport")[0]["content"].startswith("width=device-width")


def test_every_picture_has_words(page):
    shown = page.all("div", role="img")
    assert shown
    assert all(one["aria-label"].strip() for one in shown)
    assert len(page.all("figcaption")) == len(shown)


def test_the_page_needs_no_other_file_and_no_network(page, records):
    text = (records / "report.html").read_text()
    for one in page.found:
        for link in (one.get(name) or "" for name in ("src", "href", "xlink:href", "action", "data")):
            assert not link or link.startswith(("#", "data:")), link
    assert "@import" not in text
    assert "fetch(" not in text
    outside = set(re.findall(r"https?://[^\s\"'<>]+", text)) | set(re.findall(r"url\((?!#)[^)]*\)", text))
    assert outside <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_the_page_is_the_same_bytes_each_time(records):
    first = (records / "report.html").read_bytes()
    assert report.report(records)[0].read_bytes() == first


def test_words_of_a_record_are_shown_and_not_obeyed(records):
    section = report.section(ledger_read(records, "coin-mean"))
    claim = '<img src=x onerror="alert(1)"> & </table>'
    facts = {**section.record.facts, "claim": claim, "source": claim, "notes": claim, "verdicts": {claim: False}}
    facts |= {"config": {claim: claim}, "numbers": {claim: 1.0}, "command": claim, "evidence": {}}
    hostile = report.Section(type(section.record)(section.record.path, facts, {}), (Picture(problem=claim),))
    found = Page(report.page([hostile], {claim: claim}))
    assert not found.all("img")
    assert found.all("section")[0]["words"].count("<img src=x") >= 6


def ledger_read(out, name):
    from haarflow.runs import ledger

    return next(record for record in map(ledger.read, ledger.find_records(out)) if record.experiment == name)


def test_a_run_writes_the_report_of_its_experiment_and_says_where(tmp_path, capsys):
    words = ["run", "coin-mean", "--workers", "0", "--out", str(tmp_path)]
    assert answer(words) == 0
    said = capsys.readouterr().out.splitlines()
    path = tmp_path / "coin-mean" / "report.html"
    assert said[-1] == f"Report: {path}"
    assert said[0].split()[:5] == ["coin-mean", "2", "of", "2", "hold"]
    assert len(said) == 3
    assert answer([*words, "--seed", "4", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["report"] == str(path)
    assert [one["words"] for one in Page(path.read_text()).all("h2")] == ["Coin mean: 2 runs"]


def moving(frames=3):
    """A dot that rises and a line that grows, with a clock."""

    def movie(figure):
        axis = figure.add_subplot()
        axis.set(xlim=(0, 1), ylim=(0, 1))
        (dot,) = axis.plot([0.5], [0], "o")
        (line,) = axis.plot([], [])
        axis.plot([0, 1], [1, 0])
        clock = axis.set_title("")

        def show(frame):
            dot.set_data([0.5], [frame / 4])
            line.set_data(np.arange(frame + 1) / 4, np.arange(frame + 1) / 4)
            clock.set_text(f"time </script> {frame}")

        return show

    return Panel.film("A dot", "It rises.", movie, frames, size=(4.0, 2.0))


def test_a_film_is_its_last_frame_and_the_places_of_what_moves():
    found = film.film(moving(), "salt")
    assert found == film.film(moving(), "salt")
    assert "var(--" in found.svg
    assert "</script>" not in found.data
    data = json.loads(found.data)
    assert data["words"] == [f"time </script> {frame}" for frame in range(3)]
    assert [part["points"] for part in data["parts"]] == [1, 3]
    assert all(f'id="{part["id"]}"' in found.svg for part in data["parts"])
    dot, line = (
        np.frombuffer(base64.b64decode(part["places"]), "<u2").reshape(3, part["points"], 2) for part in data["parts"]
    )
    assert len(set(dot[:, 0, 0])) == 1
    assert np.diff(dot[:, 0, 1].astype(int)).max() < 0  # a page's y grows downwards
    assert (line[0, 1:] == film.NOWHERE).all()
    drawn = re.search(rf'id="{data["parts"][0]["id"]}".*?<use [^>]*x="([\d.]+)" y="([\d.]+)"', found.svg, re.DOTALL)
    assert drawn is not None
    np.testing.assert_allclose(dot[2, 0] / film.UNIT, [float(place) for place in drawn.groups()], atol=0.06)


def test_a_film_has_a_pause_a_slider_and_words_and_is_passed_over_as_a_thumbnail(records):
    record = ledger_read(records, "coin-mean")
    drawn = film.film(moving(), "salt")
    shown = Picture("A dot", "It rises.", 432.0, drawn.svg, drawn.data)
    still = Picture("Still", "It stands.", 432.0, style.render(moving(), "other"))
    found = Page(report.page([report.Section(record, (shown, still))], {}))
    (figure,) = found.all("figure", **{"class": "film"})
    assert [one["words"] for one in found.all("button") if "figure" in one["above"]] == ["Pause"]
    assert found.all("input", type="range")
    assert found.all("div", role="img")[0]["aria-label"] == "Film: A dot. It rises."
    assert json.loads(found.all("script", type="application/json")[0]["words"])["parts"]
    (again,) = [one for one in found.all("use") if "li" in one["above"]]
    assert again["href"] == f"#{still.root}"
    script = found.all("script")[-1]["words"]
    assert "prefers-reduced-motion" in script
    assert figure


def test_a_film_without_a_movie_is_refused():
    panel = Panel("Still", "", lambda figure: None)
    with pytest.raises(Refusal, match="A film is a panel with a movie; 'Still' has none. Write `Panel.film"):
        film.film(panel, "salt")


def test_a_png_has_no_stand_in_colours():
    import io

    from PIL import Image

    shades = (style.INK, style.MUTED, style.GRID, style.PAPER, style.colour("DA"))

    def draw(figure):
        axis = figure.add_subplot()
        axis.set_axis_off()
        for place, shade in enumerate(shades):
            axis.fill_between([place, place + 1], 0, 1, color=shade, linewidth=0)

    with Image.open(io.BytesIO(raster.still(Panel("", "", draw, size=(4.0, 1.0))))) as image:
        counted = image.convert("RGB").getcolors(10**6)
    seen = {"#{:02x}{:02x}{:02x}".format(*shade) for count, shade in counted if count > 500}
    assert seen == {raster.SHADES.get(shade, shade) for shade in shades}
