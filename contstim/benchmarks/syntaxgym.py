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

# A region, such as (7;%match%) or (*;%match%).
_REGION = re.compile(r"\(\s*(\d+|\*)\s*;\s*%([^%]+)%\s*\)")
# Symbols of formulas that differ in Python.
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
    """SyntaxGym test suite: items that test one phenomenon, and predictions about surprisals.

    An item consists of versions of a sentence, one for each *condition*, such as ``match`` and
    ``mismatch``. All versions are divided into the same numbered *regions*. A prediction is a
    formula that compares the surprisals of regions; it is tested for each item.

    Attributes
    ----------
    name
        Name of the file without suffix.
    formulas
        Predictions, in the syntax of `evaluate_formula`.
    cases
        One tuple per sentence: item number, name of the condition, and regions. Each region is a
        tuple of its number and its words.
    """

    name: str
    formulas: tuple[str, ...]
    cases: tuple[tuple[int, str, list[tuple[int, list[str]]]], ...]

    @property
    def sentences(self) -> list[str]:
        """The sentences of `cases`: the words of all regions, joined by single spaces."""
        word_lists = [[words for _, words in regions] for _, _, regions in self.cases]
        return [" ".join(word for words in case for word in words) for case in word_lists]

    def evaluate(self, score_words: WordScorer) -> pd.DataFrame:
        """Test the predictions of the suite for each item.

        The surprisal of a region is minus the sum of its words' log-probabilities in bits.
        Comparisons are strict; ``=`` allows a difference of 1e-6 bits.

        Parameters
        ----------
        score_words
            Function that returns the log-probability of each word.

        Returns
        -------
        DataFrame
            One row per item and prediction: `suite`, `item`, `prediction` (index of the formula,
            from 0), `correct` (whether the prediction is true).

        Raises
        ------
        InputError
            If the number of values differs from the number of words, or a formula cannot be
            evaluated.
        """
        sentences = self.sentences
        scored_sentences = zip(self.cases, sentences, score_words(sentences), strict=True)
        # Surprisal in bits by item, condition and region.
        surprisals: dict[int, dict[str, dict[int, float]]] = {}
        for (item, condition, regions), sentence, log_probs in scored_sentences:
            region_by_word = [number for number, words in regions for _ in words]
            if len(log_probs) != len(region_by_word):
                raise InputError(
                    f"suite {self.name!r}: there are {len(log_probs)} values for the "
                    f"{len(region_by_word)} words of {sentence!r}"
                )
            # The surprisal of a region is the sum of -log2 p over its words.
            by_region = {number: 0.0 for number, _ in regions}
            for number, log_prob in zip(region_by_word, log_probs, strict=True):
                by_region[number] -= float(log_prob) / np.log(2)
            surprisals.setdefault(item, {})[condition] = by_region
        # Test each prediction, a formula that compares surprisals, for each item.
        rows = []
        for item, conditions in surprisals.items():
            for index, formula in enumerate(self.formulas):
                try:
                    is_correct = evaluate_formula(formula, conditions)
                    rows.append((self.name, item, index, is_correct))
                except InputError as error:
                    raise InputError(f"suite {self.name!r}, item {item}: {error}") from None
        return pd.DataFrame(rows, columns=["suite", "item", "prediction", "correct"])


def read_suite(path: str | Path) -> Suite:
    """Read a SyntaxGym test suite from its JSON file.

    A test suite consists of sentences that test one grammatical phenomenon, and of predictions
    about the surprisals of their parts. The file contains one object with the lists ``items`` and
    ``predictions``:

    - An item has an ``item_number`` and a list ``conditions``, one for each version of a sentence.
      A condition has a ``condition_name`` and a list ``regions``. A region is a part of the
      sentence, with a ``region_number`` and its text, ``content``.
    - A prediction has a ``formula``, in the syntax of `evaluate_formula`.

    Parameters
    ----------
    path
        JSON file. Its name without suffix becomes the name of the suite.

    Returns
    -------
    Suite
        Sentences and predictions.

    Raises
    ------
    InputError
        If the file has another format.

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
        # A prediction is a formula that compares surprisals, the negative log-probabilities of
        # words.
        formulas = tuple(str(prediction["formula"]) for prediction in suite["predictions"])
        # A case is one sentence: a version of an item in one condition, split into regions.
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
    """Return whether a prediction about surprisals (in bits) is true for an item.

    Parameters
    ----------
    formula
        Prediction, such as ``[(7;%match%) < (7;%mismatch%)] & [(3;%a%) - (3;%b%) > 0]``.
        ``(n;%c%)`` is the surprisal of region n in condition c, and ``(*;%c%)`` the surprisal of
        the sentence. The precedence of operators, highest first, is ``+ -``, ``< > =``, ``&``,
        ``|``.
    conditions
        Surprisal in bits of each region of the item, by condition and region number.

    Raises
    ------
    InputError
        If the formula cannot be read, or names an unknown condition or region.
    """
    surprisals: dict[str, float] = {}

    def replace_region(match: re.Match[str]) -> str:
        """Return the variable name that replaces a reference such as ``(7;%match%)`` in a formula.

        The surprisal to which the reference points is stored under this name in `surprisals`.

        Parameters
        ----------
        match
            Match of `_REGION`: the reference, with the groups region (number or ``*``) and
            condition.
        """
        region, condition = match.groups()
        # Surprisals by region number; a formula uses * for the whole sentence.
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
        # Put a variable into the formula, and remember its value.
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
    """Evaluate the syntax tree of a formula recursively.

    Only numbers, variables, sums, differences, comparisons, ``and`` and ``or`` are allowed, because
    formulas come from downloaded files.

    Parameters
    ----------
    node
        Node of the tree.
    surprisals
        Values of the variables.

    Raises
    ------
    ValueError
        If the formula contains something else.
    """
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        # A variable is the surprisal of a region of the sentence.
        case ast.Name(id=name):
            return surprisals[name]
        case ast.BinOp(left=left, op=op, right=right):
            return _OPERATORS[type(op)](_evaluate(left, surprisals), _evaluate(right, surprisals))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            left_value, right_value = _evaluate(left, surprisals), _evaluate(right, surprisals)
            return bool(_OPERATORS[type(op)](left_value, right_value))
        case ast.BoolOp(op=op, values=values):
            parts = [bool(_evaluate(value, surprisals)) for value in values]
            return all(parts) if isinstance(op, ast.And) else any(parts)
    # Anything else is refused, because formulas come from downloaded files.
    raise ValueError(ast.dump(node))
