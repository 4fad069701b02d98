"""SyntaxGym suites: predictions about the surprisal of regions, as formulas."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import FloatArray
from contstim.errors import InputError
from contstim.files import decode_json

#: A function from S sentences to S arrays of word log-probabilities in nats, such as the
#: method `score_words` of a model.
WordScorer = Callable[[list[str]], Sequence[FloatArray]]

# A region, such as (7;%match%) or (*;%match%), and the signs that Python writes otherwise.
_REGION = re.compile(r"\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)")
_PYTHON = {"&": " and ", "|": " or ", "[": "(", "]": ")", "=": "=="}
_OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.Eq: lambda a, b: abs(a - b) < 1e-6,
}


@dataclass(frozen=True)
class Suite:
    """Conditions of items, divided in regions, and predictions about the regions' surprisals.

    Attributes
    ----------
    name
        Stem of the file.
    formulas
        The predictions.
    cases
        Item number, condition, and regions (number and words) of each condition of each item.
    """

    name: str
    formulas: tuple[str, ...]
    cases: tuple[tuple[int, str, list[tuple[int, list[str]]]], ...]

    @property
    def sentences(self) -> list[str]:
        """The sentence of each case: the words of all regions, joined by single spaces."""
        return [
            " ".join(word for _, words in regions for word in words) for *_, regions in self.cases
        ]

    def evaluate(self, score_words: WordScorer) -> pd.DataFrame:
        """Return for each item and prediction whether a model meets it.

        The surprisal of a region is minus the sum of its words' log-probabilities in bits.
        Comparisons are strict; ``=`` allows a difference of 1e-6 bits.

        Parameters
        ----------
        score_words
            Function that returns the log-probability of each word.

        Returns
        -------
        DataFrame
            `suite`, `item`, `prediction` (from 0), `correct`.

        Raises
        ------
        InputError
            If the number of values differs from the number of words, or a formula cannot be
            evaluated.
        """
        sentences, surprisals = self.sentences, dict[int, dict[str, dict[int, float]]]()
        for case, sentence, values in zip(
            self.cases, sentences, score_words(sentences), strict=True
        ):
            item, condition, regions = case
            numbers = [number for number, words in regions for _ in words]
            if len(values) != len(numbers):
                raise InputError(
                    f"suite {self.name!r}: there are {len(values)} values for the {len(numbers)} "
                    f"words of {sentence!r}"
                )
            total = dict.fromkeys((number for number, _ in regions), 0.0)
            for number, value in zip(numbers, values, strict=True):
                total[number] -= float(value) / np.log(2)
            surprisals.setdefault(item, {})[condition] = total
        rows = []
        for item, conditions in surprisals.items():
            for number, formula in enumerate(self.formulas):
                try:
                    rows.append((self.name, item, number, evaluate_formula(formula, conditions)))
                except InputError as error:
                    raise InputError(f"suite {self.name!r}, item {item}: {error}") from None
        return pd.DataFrame(rows, columns=["suite", "item", "prediction", "correct"])


def read_suite(path: str | Path) -> Suite:
    """Read the JSON file of a suite.

    Raises
    ------
    InputError
        If the file is not a suite.

    Source
    ------
    Hu et al. (2020), doi 10.18653/v1/2020.acl-main.158.

    Examples
    --------
    >>> import json
    >>> from contstim import load_model
    >>> def condition(name, *texts):
    ...     regions = [{"region_number": n, "content": text} for n, text in enumerate(texts, 1)]
    ...     return {"condition_name": name, "regions": regions}
    >>> conditions = [
    ...     condition("plain", "The dog", "was asleep."),
    ...     condition("odd", "The dog", "asleep was."),
    ... ]
    >>> suite = {
    ...     "items": [{"item_number": 1, "conditions": conditions}],
    ...     "predictions": [{"type": "formula", "formula": "(2;%plain%) < (2;%odd%)"}],
    ... }
    >>> _ = Path("dogs.json").write_text(json.dumps(suite))
    >>> read_suite("dogs.json").evaluate(load_model("contstim:trigram").score_words)
      suite  item  prediction  correct
    0  dogs     1           0     True
    """
    path = Path(path)
    try:
        suite = decode_json(path.read_text(encoding="utf-8"))
        formulas = tuple(str(prediction["formula"]) for prediction in suite["predictions"])
        cases = tuple(
            (
                int(item["item_number"]),
                str(condition["condition_name"]),
                # A region number that occurs twice is one region.
                [(int(r["region_number"]), r["content"].split()) for r in condition["regions"]],
            )
            for item in suite["items"]
            for condition in item["conditions"]
        )
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except KeyError as error:
        raise InputError(f"{str(path)!r} is not a SyntaxGym suite; a part lacks {error}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{str(path)!r} is not a SyntaxGym suite: {error}") from None
    return Suite(path.stem, formulas, cases)


def evaluate_formula(formula: str, conditions: Mapping[str, Mapping[int, float]]) -> bool:
    """Return whether a prediction holds.

    Parameters
    ----------
    formula
        Such as ``[(7;%match%) < (7;%mismatch%)] & [(3;%a%) - (3;%b%) > 0]``: ``(n;%c%)`` is the
        surprisal of region n of condition c, ``(*;%c%)`` that of the sentence. ``+ -`` bind
        tighter than ``< > =``, those tighter than ``&``, and that tighter than ``|``.
    conditions
        Surprisal by condition and region number.

    Raises
    ------
    InputError
        If the formula cannot be read, or names an unknown condition or region.
    """
    surprisals: dict[str, float] = {}

    def replace_region(match: re.Match[str]) -> str:
        region, condition = match.groups()
        regions = conditions.get(condition, {})
        if not regions or (region != "*" and int(region) not in regions):
            raise InputError(
                f"the formula {formula!r} names region {region} of condition {condition!r}, which "
                "the item lacks"
            )
        value = sum(regions.values()) if region == "*" else regions[int(region)]
        if np.isnan(value):
            raise InputError(
                f"the formula {formula!r} needs the surprisal of region {region} of condition "
                f"{condition!r}, which the model does not give"
            )
        name = f"region_{len(surprisals)}"
        surprisals[name] = value
        return f" {name} "

    text = _REGION.sub(replace_region, formula)
    text = "".join(_PYTHON.get(character, character) for character in text)
    try:
        value = _evaluate(ast.parse(text.strip(), mode="eval").body, surprisals)
    except (SyntaxError, ValueError, KeyError, RecursionError, MemoryError):
        raise InputError(f"the formula {formula[:200]!r} cannot be read") from None
    if not isinstance(value, bool):
        raise InputError(f"the formula {formula!r} is a number, not a prediction")
    return value


def _evaluate(node: ast.expr, surprisals: Mapping[str, float]) -> float | bool:
    """Evaluate an expression of numbers, regions, sums, comparisons, ``and`` and ``or``."""
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case ast.Name(id=name):
            return surprisals[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, surprisals), _evaluate(right, surprisals))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            sides = (_evaluate(left, surprisals), _evaluate(right, surprisals))
            return bool(_OPERATORS[type(op)](*sides))
        case ast.BoolOp(op=op, values=values):
            parts = [bool(_evaluate(value, surprisals)) for value in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
    raise ValueError(ast.dump(node))
