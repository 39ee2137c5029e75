"""Mathematics from plain text, as HTML that needs no library: `mu^G`, `|f − Qf|²`, `N^{−1/2}`, `W2²`, `1e-24`.

Claims and captions are written so that a terminal can show them. The report reads the same words through `typeset`,
which knows these few forms and leaves everything else as it is, and pictures through `mathtext`:

    x^2, x^{a + b}, x^(a + b), x²          superscripts
    x_i, x_{ij}, f_(mu^G), x₁              subscripts; a capital with one digit has one too: W2, C4, S3
    mu, tau, Psi, ...                      Greek letters by their names
    1e-12, 2.5e-4, -1                      powers of ten, a true minus
    <w, x>, >=, <=, ->                     signs
    N, f, Qf, S*                           variables: single letters, but not the English `a`, `A` and `I`
    `code`                                 code; a formula where it holds mathematics

"""

import re
from collections.abc import Callable

from markupsafe import Markup, escape

_LETTERS = """alpha α beta β gamma γ delta δ eta η theta θ kappa κ lambda λ mu μ nu ν xi ξ pi π rho ρ sigma σ
tau τ phi φ chi χ psi ψ omega ω Delta Δ Phi Φ Psi Ψ Omega Ω"""
GREEK: dict[str, str] = dict(zip(_LETTERS.split()[::2], _LETTERS.split()[1::2], strict=True))
SIGNS = {">=": "≥", "<=": "≤", "->": "→", "<-": "←"}
RAISED, LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "₀₁₂₃₄₅₆₇₈₉"
PLAIN = str.maketrans(RAISED + LOWERED, "0123456789+−0123456789")
OPERATORS = ("mean", "sup", "inf", "min", "max", "lim")
WORDS = ("Qf", "Pz", "dt", "dx", "dmu")  # variables of two letters
MATHEMATICS = re.compile(r"[\^²³∫∬∂∇≈≤≥·√Σ|α-ωΑ-Ω−=]")
_MATHTEXT = {"<i>": "", "</i>": "", "<code>": r"\mathtt{", "</code>": "}"}
_MATHTEXT |= {"<sup>": "^{", "</sup>": "}", "<sub>": "_{", "</sub>": "}"}

_names = "|".join(sorted(GREEK, key=len, reverse=True))
_group = r"\{[^{}]*\}|\((?:[^()]|\([^()]*\))*\)"  # a script in braces or in brackets
_base = rf"(?:{_names}|{'|'.join(OPERATORS)}|{'|'.join(WORDS)}|[A-Za-zα-ωΑ-Ω∂∇]\u0302?)"
_TOKENS = re.compile(
    rf"""
    `(?P<code>[^`]+)`
  | (?<![A-Za-z0-9_])(?P<base>{_base})_(?P<sub>{_group}|(?:{_names}|[A-Za-z]{{1,3}}|[α-ωΑ-Ω]|[0-9]+)(?![A-Za-z0-9_]))
  | \^(?P<sup>{_group}|[−-]?[A-Za-z0-9α-ω]+(?:[./][A-Za-z0-9]+)*)
  | (?P<raised>[{RAISED}]+)
  | (?P<lowered>[{LOWERED}]+)
  | (?<![A-Za-z0-9_.])(?P<digits>[0-9]+(?:\.[0-9]+)?)e(?P<power>[+−-]?[0-9]+)(?![A-Za-z0-9_])
  | <(?P<left>[^<>,\s]+),\s(?P<right>[^<>]+)>
  | (?P<sign>>=|<=|->|<-)
  | (?<![A-Za-z0-9_)])(?P<minus>-)(?=[0-9.])
  | (?<![A-Za-z_])(?P<greek>{_names})(?![A-Za-z0-9_])(?P<greek_prime>'?)
  | (?<![A-Za-z0-9_])(?P<letter>[A-KM-Z])(?P<digit>[0-9])(?![A-Za-z0-9_.])
  | (?<![A-Za-z_.'’])(?P<variable>{"|".join(WORDS)}|[b-zB-HJ-Zŷα-ωΑ-ΡΤ-Ω]\u0302?)
    (?![A-Za-z0-9_’]|'[A-Za-z]|\.[A-Za-z])(?P<mark>[*']?)
    """,
    re.VERBOSE,
)


def typeset(text: str) -> Markup:
    """The words as safe HTML, with sup, sub, i and code.

    >>> print(typeset("W2² to E^G falls like N^{-1/2}"))
    <i>W</i><sub>2</sub><sup>2</sup> to <i>E</i><sup><i>G</i></sup> falls like <i>N</i><sup>−1/2</sup>
    """
    found, end = [], 0
    for match in _TOKENS.finditer(text):
        found += [escape(text[end : match.start()]), _FORMS[_kind(match)](match)]
        end = match.end()
    return Markup("").join([*found, escape(text[end:])])


def mathtext(text: str) -> str:
    """The words for a picture, with their mathematics as matplotlib sets it; those that hold a $ stay as they are.

    >>> print(mathtext("W2² to E^G"))
    $W_{2}^{2}$ to $E^{G}$
    """
    if "$" in text:
        return text
    found, depth = "", 0
    for piece in re.split(r"(</?(?:i|sup|sub|code)>)", str(typeset(text))):
        if piece.startswith("</"):
            depth -= 1
            found += _MATHTEXT[piece] + ("" if depth else "$")
        elif piece in _MATHTEXT:
            found += ("" if depth else "$") + _MATHTEXT[piece]
            depth += 1
        else:
            found += Markup(piece).unescape()
    return found.replace("$$", "")  # what was closed only to be opened again


def _kind(match: re.Match[str]) -> str:
    """Which of the forms a match has."""
    return next(name for name in _FORMS if match[name] is not None)


def _code(match: re.Match[str]) -> Markup:
    """What stands between backticks: a formula, or code."""
    words = match["code"]
    return typeset(words) if MATHEMATICS.search(words) else _tagged("code", words)


def _script(tag: str, words: str) -> Markup:
    """Words raised or lowered, without the brackets that held them together."""
    inner = words[1:-1] if words[0] in "{(" else words
    return _tagged(tag, typeset(inner))


def _below(match: re.Match[str]) -> Markup:
    if match["sub"] == "hat":
        return typeset(match["base"]) + Markup("\u0302")
    return typeset(match["base"]) + _script("sub", match["sub"])


def _power_of_ten(match: re.Match[str]) -> Markup:
    front = "" if match["digits"] == "1" else f"{match['digits']}\u2009×\u2009"
    power = str(int(match["power"].replace("−", "-"))).replace("-", "−")
    return Markup("{}10<sup>{}</sup>").format(front, power)


def _variable(match: re.Match[str]) -> Markup:
    """A variable in italics; of `dmu` only the Greek letter is spelled otherwise."""
    name = match["variable"].replace("mu", GREEK["mu"])
    mark = {"*": Markup("<sup>∗</sup>"), "'": Markup("′")}.get(match["mark"], Markup(""))
    return _tagged("i", name) + mark


def _tagged(tag: str, words: str | Markup) -> Markup:
    return Markup(f"<{tag}>{{}}</{tag}>").format(words)


_FORMS: dict[str, Callable[[re.Match[str]], Markup]] = {
    "code": _code,
    "sub": _below,
    "sup": lambda match: _script("sup", match["sup"]),
    "raised": lambda match: _tagged("sup", match["raised"].translate(PLAIN)),
    "lowered": lambda match: _tagged("sub", match["lowered"].translate(PLAIN)),
    "power": _power_of_ten,
    "left": lambda match: Markup("⟨{}, {}⟩").format(typeset(match["left"]), typeset(match["right"])),
    "sign": lambda match: Markup(SIGNS[match["sign"]]),
    "minus": lambda match: Markup("−"),
    "greek": lambda match: _tagged("i", GREEK[match["greek"]]) + ("′" if match["greek_prime"] else ""),
    "letter": lambda match: _tagged("i", match["letter"]) + _tagged("sub", match["digit"]),
    "variable": _variable,
}
