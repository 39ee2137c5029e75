"""Mathematics in the report: what plain text becomes, and that nothing of it is markup of its own."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haarflow.runs import catalogue
from haarflow.runs.typeset import GREEK, mathtext, typeset

FORMS = {
    "E^G": "<i>E</i><sup><i>G</i></sup>",
    "mu^G": "<i>μ</i><sup><i>G</i></sup>",
    "|f − Qf|²": "|<i>f</i> − <i>Qf</i>|<sup>2</sup>",
    "N^{−1/2}": "<i>N</i><sup>−1/2</sup>",
    "n^-1/2": "<i>n</i><sup>−1/2</sup>",
    "m^(γ − 1)": "<i>m</i><sup><i>γ</i> − 1</sup>",
    "d^1.5.": "<i>d</i><sup>1.5</sup>.",
    "W2²": "<i>W</i><sub>2</sub><sup>2</sup>",
    "RMD²": "RMD<sup>2</sup>",
    "x⁻¹": "<i>x</i><sup>−1</sup>",
    "relu(x₁)": "relu(<i>x</i><sub>1</sub>)",
    "f_mu": "<i>f</i><sub><i>μ</i></sub>",
    "f_(mu^G)": "<i>f</i><sub><i>μ</i><sup><i>G</i></sup></sub>",
    "mean_g R(M_g # mu)": "mean<sub><i>g</i></sub> <i>R</i>(<i>M</i><sub><i>g</i></sub> # <i>μ</i>)",
    "|P_{>1} σ|": "|<i>P</i><sub>&gt;1</sub> <i>σ</i>|",
    "rho_hat": "<i>ρ</i>̂",
    "f̂_λ": "<i>f̂</i><sub><i>λ</i></sub>",
    "∂_r": "∂<sub><i>r</i></sub>",
    "∫Psi dmu": "∫<i>Ψ</i> <i>dμ</i>",
    "mu' = x'": "<i>μ</i>′ = <i>x</i>′",
    "F − F*": "<i>F</i> − <i>F</i><sup>∗</sup>",
    "below 1e-24": "below 10<sup>−24</sup>",
    "2.50e+03": "2.50\u2009×\u200910<sup>3</sup>",
    "between -0.8 and -.2": "between −0.8 and −.2",
    "C4 and SO(3)": "<i>C</i><sub>4</sub> and SO(3)",
    "<w, x>²": "⟨<i>w</i>, <i>x</i>⟩<sup>2</sup>",
    "a >= b -> c": "a ≥ <i>b</i> → <i>c</i>",
    "1/2M draws": "1/2<i>M</i> draws",
    "`W2² ≈ C s / B`": "<i>W</i><sub>2</sub><sup>2</sup> ≈ <i>C</i> <i>s</i> / <i>B</i>",
    "`fault` of `mean_rule`": "<code>fault</code> of <code>mean_rule</code>",
}
PLAIN = [
    "circle_correction and half_open",
    "the kernel's error, Stroock’s constant",
    "e.g. a law, i.e. a measure",
    "A mean-field view: parts 0-59 of I",
    "L1 and float64, in 10 runs, 95% of SO(2)",
    "multitude, beta1, taunt, museum",
]


@pytest.mark.parametrize("plain", FORMS)
def test_mathematics_is_typeset(plain):
    assert typeset(plain) == FORMS[plain]


@pytest.mark.parametrize("words", PLAIN)
def test_words_stay_words(words):
    assert str(typeset(words)) == words.replace("'", "&#39;")


@pytest.mark.parametrize("name", GREEK)
def test_greek_letters_go_by_their_names(name):
    assert typeset(name) == f"<i>{GREEK[name]}</i>"
    assert typeset(f"{name}ns") == f"{name}ns"


class Tags(HTMLParser):
    """The tags of a text, which must be closed in the order in which they were opened."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.seen, self.words = [], set(), ""

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def parsed(html):
    tags = Tags()
    tags.feed(str(html))
    tags.close()
    assert tags.open == []
    return tags


def test_markup_in_words_is_shown_and_not_obeyed():
    hostile = "<script>x</script> & <b onclick='y'>^{<i>}</b> `<img src=x>` f_(<u>) <<w>, <x>>"
    assert parsed(typeset(hostile)).seen <= {"i", "sup", "sub", "code"}


@given(st.text(alphabet=st.sampled_from("ab<>&'\"^_{}()`²₁−-1e. mufRx*|\n"), max_size=40))
def test_whatever_the_words_the_tags_are_few_and_closed(words):
    assert parsed(typeset(words)).seen <= {"i", "sup", "sub", "code"}


def test_no_word_of_a_claim_is_lost():
    for entry in catalogue.catalogue().values():
        for words in (entry.claim, entry.source, entry.notes):
            shown = parsed(typeset(words)).words
            assert _long(shown) == _long(words), entry.name


def _long(words):
    """The words of four letters and more, without the names of Greek letters."""
    return [word for word in re.findall(r"[A-Za-z]{4,}", words) if word not in GREEK]


@pytest.mark.parametrize(
    ("plain", "shown"),
    [
        ("Prop 2: R^FA(mu) = R(mu^G)", "Prop 2: $R^{FA}$($μ$) = $R$($μ^{G}$)"),
        ("Prop 1: Q f_mu = f_(mu^G)", "Prop 1: $Q$ $f_{μ}$ = $f_{μ^{G}}$"),
        ("DA, FA and EA stay on E^G", "DA, FA and EA stay on $E^{G}$"),
        ("S3 & <w, x>, 1e-12", "$S_{3}$ & ⟨$w$, $x$⟩, 10$^{−12}$"),
        ("$E^G$ of `mu`", "$E^G$ of `mu`"),
    ],
)
def test_pictures_show_the_same_mathematics(plain, shown):
    from matplotlib.mathtext import MathTextParser

    assert mathtext(plain) == shown
    assert MathTextParser("path").parse(shown).width > 0
