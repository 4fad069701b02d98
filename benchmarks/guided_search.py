"""Losses of the published guided search and of `edit` at equal numbers of exact scores.

Usage: python benchmarks/guided_search.py [--reject SPEC] [--accept SPEC] [--starts 30]
       [--budgets 5 10 20] [--words 5000]

Both strategies start from the same eight-word sentences of the bundled pool with the same
vocabulary and seed. Counted are the exact scores of the model that is not known at once (the last
one if there are two), including the verification of accepted sentences. A search stops at the
largest budget; a search that ends earlier keeps its loss.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

import numpy as np

from contstim import Problem, bundled_vocabulary, load_model, pool
from contstim.models.base import scores_vocabulary
from contstim.synthesis import parse_strategy
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import Strategy
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments" / "golan2023"))
from guided_search import GuidedSearch


class BudgetSpentError(Exception):
    """The largest budget is spent."""


class LimitedCounts(dict[str, int]):
    """Numbers of exact scores by model; the search ends when a model exceeds its limit."""

    name, limit = "", 0

    def __setitem__(self, name: str, count: int) -> None:
        super().__setitem__(name, count)
        if name == self.name and count > self.limit:
            raise BudgetSpentError


def losses_by_budget(
    search: Search, strategy: Strategy, counted: str, budgets: list[int]
) -> list[float]:
    """Run a search and return its loss at each budget of exact scores of the model `counted`."""
    counts = LimitedCounts(search.counter.n_scores)
    counts.name, counts.limit = counted, max(budgets)
    search.counter.n_scores = counts
    with contextlib.suppress(BudgetSpentError):
        strategy.run(search)
    names = list(search.natural_scores)
    # Each step has also cost one score for its verification.
    points = [(0, 0.0)]
    for number, step in enumerate(search.steps, start=1):
        n_scores = step.n_scores[names.index(counted)] + number
        points.append((n_scores, search.loss(dict(zip(names, step.scores, strict=True)))))
    return [[loss for n_scores, loss in points if n_scores <= budget][-1] for budget in budgets]


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reject", default="contstim:bert?metric=pll")
    parser.add_argument("--accept", default="contstim:trigram")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--budgets", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--words", type=int, default=5000, help="number of candidate words")
    args = parser.parse_args()
    models = load_model(args.reject), load_model(args.accept)
    counted = [model.spec for model in models if not scores_vocabulary(model)][-1]
    words = bundled_vocabulary()
    vocabulary = Vocabulary(
        WordList(words.first.words[: args.words]),
        WordList(words.elsewhere.words[: args.words]),
        words.repeatable,
    )
    shared, problem = SharedVocabulary(vocabulary, models), Problem((models[0],), (models[1],))
    starts = [sentence for sentence in pool() if len(sentence.split()) == 8][: args.starts]
    strategies = {"guided": GuidedSearch(), "edit": parse_strategy("edit")}
    losses = {name: np.zeros((len(starts), len(args.budgets))) for name in strategies}
    for row, start in enumerate(starts):
        for name, strategy in strategies.items():
            search = Search(problem, shared, Sentence.parse(start), seed=0)
            losses[name][row] = losses_by_budget(search, strategy, counted, args.budgets)
        print(f"{row + 1} of {len(starts)}", file=sys.stderr)
    print(
        "| exact scores | `guided`, nats | `edit`, nats | `edit` lower | equal | `guided` lower |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for column, budget in enumerate(args.budgets):
        guided, edit = losses["guided"][:, column], losses["edit"][:, column]
        lower, higher = (edit < guided - 1e-3).sum(), (edit > guided + 1e-3).sum()
        print(
            f"| {budget} | {guided.mean():.2f} | {edit.mean():.2f} | {lower} | "
            f"{len(starts) - lower - higher} | {higher} |"
        )


if __name__ == "__main__":
    main()
