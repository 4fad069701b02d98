"""SyntaxGym suites: predictions about the surprisal of regions, as formulas in their files."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.files import json_value

#: A function from S sentences to S arrays of word log-probabilities in nats, such as the
#: `score_words` method of a model.
WordScorer = Callable[[list[str]], Sequence[FloatArray]]

# Of an item its number, a condition's name, and number and words of each region.
_Case = tuple[int, str, list[tuple[int, list[str]]]]
_KINDS = {list: "list", str: "text", int: "number"}

# What signs join, those that bind least first.
_LEVELS: tuple[dict[str, Callable[[float, float], bool | float]], ...] = (
    {"|": lambda a, b: bool(a) or bool(b)},
    {"&": lambda a, b: bool(a) and bool(b)},
    {
        "<": lambda a, b: bool(a < b),
        ">": lambda a, b: bool(a > b),
        "=": lambda a, b: bool(abs(a - b) < 1e-6),
    },
    {"+": operator.add, "-": operator.sub},
)
_COMPARING = 2
_TOKEN = re.compile(r"\s*(?:\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)|(\d+(?:\.\d+)?)|([][()<>=&|+-]))")


@dataclass(frozen=True)
class Suite:
    """A suite: conditions of items, in regions, and predictions about the regions' surprisals.

    Attributes
    ----------
    name
        Its file's.
    formulas
        The predictions.
    cases
        Of each item's condition its number, its name, and number and words of each region.
    """

    name: str
    formulas: tuple[str, ...]
    cases: tuple[_Case, ...]

    @property
    def sentences(self) -> list[str]:
        """The sentence of each case: all regions' words, joined by single spaces."""
        return [
            " ".join(word for _, words in regions for word in words) for *_, regions in self.cases
        ]

    def correct(self, scorer: WordScorer) -> pd.DataFrame:
        """Return for each item and prediction whether a model meets it, as `run_syntaxgym`."""
        rows = []
        for item, conditions in self._surprisals(scorer).items():
            for number, formula in enumerate(self.formulas):
                try:
                    rows.append((self.name, item, number, evaluate_formula(formula, conditions)))
                except InputError as error:
                    raise InputError(f"suite {self.name!r}, item {item}: {error}") from None
        return pd.DataFrame(rows, columns=["suite", "item", "prediction", "correct"])

    def _surprisals(self, scorer: WordScorer) -> dict[int, dict[str, dict[int, float]]]:
        sentences = self.sentences
        surprisals: dict[int, dict[str, dict[int, float]]] = {}
        for case, sentence, values in zip(self.cases, sentences, scorer(sentences), strict=True):
            item, condition, regions = case
            owners = [number for number, words in regions for _ in words]
            if len(values) != len(owners):
                raise InputError(
                    f"the scorer gave {len(values)} values for the {len(owners)} words of "
                    f"{sentence!r} in suite {self.name!r}"
                )
            total = dict.fromkeys((number for number, _ in regions), 0.0)
            for region, value in zip(owners, values, strict=True):
                total[region] -= float(value) / np.log(2)
            surprisals.setdefault(item, {})[condition] = total
        return surprisals


def run_syntaxgym(path: str | Path, scorer: WordScorer) -> pd.DataFrame:
    """Return for each suite, item and prediction whether the model meets it.

    A region's surprisal is minus the sum of its words' log-probabilities in bits. Regions are
    joined by single spaces, so that each word belongs to one region, a comma or period that
    is a region of its own being a word. Comparisons are strict; ``=`` holds within 1e-6 bits.

    Parameters
    ----------
    path
        A suite's JSON file, or a folder of them.
    scorer
        Gives each word's log-probability.

    Returns
    -------
    DataFrame
        `suite`, `item`, `prediction` (0-based), `correct`.

    Raises
    ------
    InputError
        If a file is not a suite, a formula cannot be read, or the scorer gives a
        sentence another number of values than it has words, or no number where a formula asks.

    Source
    ------
    Hu et al. (2020), doi 10.18653/v1/2020.acl-main.158.

    Examples
    --------
    >>> import json
    >>> from contstim import load_model
    >>> def regions(*texts):
    ...     return [{"region_number": n, "content": text} for n, text in enumerate(texts, start=1)]
    >>> conditions = [
    ...     {"condition_name": "plain", "regions": regions("The dog", "was asleep.")},
    ...     {"condition_name": "odd", "regions": regions("The dog", "asleep was.")},
    ... ]
    >>> suite = {
    ...     "items": [{"item_number": 1, "conditions": conditions}],
    ...     "predictions": [{"type": "formula", "formula": "(2;%plain%) < (2;%odd%)"}],
    ... }
    >>> _ = Path("dogs.json").write_text(json.dumps(suite))
    >>> run_syntaxgym("dogs.json", load_model("contstim:trigram").score_words)
      suite  item  prediction  correct
    0  dogs     1           0     True
    """
    tables = [suite.correct(scorer) for suite in read_suites(path)]
    return pd.concat(tables, ignore_index=True)


def read_suites(path: str | Path) -> list[Suite]:
    """Read a suite's JSON file, or a folder of them.

    Raises
    ------
    InputError
        If a file is not a suite, or there is none.

    Examples
    --------
    >>> import json
    >>> words = enumerate(["The dog", "ran."], start=1)
    >>> regions = [{"region_number": n, "content": text} for n, text in words]
    >>> items = [{"item_number": 1, "conditions": [{"condition_name": "c", "regions": regions}]}]
    >>> suite = {"items": items, "predictions": [{"formula": "(1;%c%) > (2;%c%)"}]}
    >>> _ = Path("dogs.json").write_text(json.dumps(suite))
    >>> read_suites("dogs.json")[0].sentences
    ['The dog ran.']
    """
    place = Path(path)
    files = sorted(place.glob("*.json")) if place.is_dir() else [place]
    if not files:
        raise InputError(f"the folder {str(place)!r} holds no suite (.json)")
    suites = []
    for file in files:
        suite = _read(file)
        formulas = [
            _entry(prediction, "formula", str, f"prediction {number} of {str(file)!r}")
            for number, prediction in enumerate(suite["predictions"], start=1)
        ]
        cases = _cases(suite["items"], str(file))
        suites.append(Suite(file.stem, tuple(formulas), tuple(cases)))
    return suites


def _read(file: Path) -> dict[str, list[object]]:
    try:
        suite = json_value(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {str(file)!r}") from error
    except ValueError as error:
        raise InputError(f"{str(file)!r} is not JSON: {error}") from error
    if not (isinstance(suite, dict) and {"items", "predictions"} <= set(suite)):
        raise InputError(f"{str(file)!r} is not a SyntaxGym suite; it has no items or predictions")
    return {key: _entry(suite, key, list, repr(str(file))) for key in ("items", "predictions")}


def _entry(entry: object, key: str, kind: type, where: str) -> Any:
    """Return what a part of a suite has under `key`, a list, text or (as text, too) number."""
    value = entry.get(key) if isinstance(entry, dict) else None
    if kind is int:
        with suppress(ValueError):
            value = int(str(value))
    if not isinstance(value, kind):
        wanted = f"{_KINDS[kind]} {key!r}"
        raise InputError(f"{where} has no {wanted}, as a part of a SyntaxGym suite has")
    return value


def _cases(items: list[object], file: str) -> list[_Case]:
    """Return the conditions of all items, with the words of their regions."""
    cases = []
    for place, item in enumerate(items, start=1):
        where = f"item {place} of {file!r}"
        for condition in _entry(item, "conditions", list, where):
            name = _entry(condition, "condition_name", str, f"a condition of {where}")
            inside = f"a region of condition {name!r} of {where}"
            # a number may stand more than once: its parts count together
            regions = [
                (_entry(r, "region_number", int, inside), _entry(r, "content", str, inside).split())
                for r in _entry(condition, "regions", list, f"condition {name!r} of {where}")
            ]
            cases.append((_entry(item, "item_number", int, where), name, regions))
    return cases


def evaluate_formula(formula: str, conditions: dict[str, dict[int, float]]) -> bool:
    """Return whether a prediction holds.

    Parameters
    ----------
    formula
        Such as ``[(7;%match%) < (7;%mismatch%)] & [(3;%a%) - (3;%b%) > 0]``: ``(n;%c%)`` is the
        surprisal of region n of condition c, ``(*;%c%)`` that of the sentence; ``+ -`` bind
        before ``< > =``, those before ``&``, and that before ``|``.
    conditions
        From condition to region number to surprisal.

    Raises
    ------
    InputError
        If the formula cannot be read, or names an unknown condition or region.
    """
    parser = _Parser(formula, conditions)
    try:
        value = parser.part()
    except RecursionError:
        raise InputError(
            f"the formula {formula[:40]!r}... has too many brackets within others"
        ) from None
    parser.end()
    if not isinstance(value, bool):
        raise InputError(f"the formula {formula!r} is a number, not a prediction")
    return value


class _Parser:
    """Recursive descent over a formula, one level of binding after the other."""

    def __init__(self, formula: str, conditions: dict[str, dict[int, float]]) -> None:
        self._formula = formula
        self._conditions = conditions
        self._tokens: list[tuple[str, ...]] = []
        at = 0
        text = formula.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise InputError(f"the formula {formula!r} cannot be read at {text[at:]!r}")
            self._tokens.append(tuple(g or "" for g in match.groups()))
            at = match.end()
        self._at = 0

    def _sign(self) -> str:
        return self._tokens[self._at][3] if self._at < len(self._tokens) else ""

    def _fail(self) -> InputError:
        return InputError(f"the formula {self._formula!r} cannot be read at part {self._at + 1}")

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise self._fail()

    def part(self, level: int = 0) -> bool | float:
        """Read what the signs of a level, the loosest first, join."""
        if level == len(_LEVELS):
            return self._atom()
        value = self.part(level + 1)
        while (sign := self._sign()) in _LEVELS[level]:
            self._at += 1
            value = _LEVELS[level][sign](value, self.part(level + 1))
            if level == _COMPARING:  # comparisons are not chained
                break
        return value

    def _atom(self) -> bool | float:
        if self._at >= len(self._tokens):
            raise self._fail()
        region, condition, number, sign = self._tokens[self._at]
        if sign in ("(", "["):
            self._at += 1
            value = self.part()
            if self._sign() != {"(": ")", "[": "]"}[sign]:
                raise self._fail()
            self._at += 1
            return value
        if sign:
            raise self._fail()
        self._at += 1
        if number:
            return float(number)
        regions = self._conditions.get(condition)
        if regions is None or (region != "*" and int(region) not in regions):
            raise InputError(
                f"the formula {self._formula!r} names region {region} of condition "
                f"{condition!r}, which the item lacks"
            )
        value = sum(regions.values()) if region == "*" else regions[int(region)]
        if np.isnan(value):
            raise InputError(
                f"the formula {self._formula!r} asks for the surprisal of region {region} of "
                f"condition {condition!r}, of which the model says nothing"
            )
        return value
