"""The metrics of masked models by name: a metric lays out which masked inputs a score is read off.

Salazar et al. (2020), Kauf & Ivanova (2023), Golan et al. (2023), section 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from contstim.arrays import IntArray
from contstim.models.hf.plans import Plan, exact_plan, permutation

if TYPE_CHECKING:
    from contstim.models.hf.options import MaskedOptions

__all__ = ["METRICS", "plan_for"]

#: From the number of scored tokens of each word, (W,), the word of each token, (T,), and the
#: options of the model to the plan.
Metric = Callable[[tuple[int, ...], IntArray, "MaskedOptions"], Plan]


def _pll(layout: tuple[int, ...], word_of: IntArray, options: MaskedOptions) -> Plan:
    """Hide each token alone (Salazar et al. 2020)."""
    tokens = np.arange(len(word_of))
    return exact_plan(np.eye(len(word_of), dtype=np.bool_), tokens, tokens, 1.0)


def _word_l2r(layout: tuple[int, ...], word_of: IntArray, options: MaskedOptions) -> Plan:
    """Hide each token and the later ones of its word (Kauf & Ivanova 2023)."""
    tokens = np.arange(len(word_of))
    same_word = word_of[:, None] == word_of[None, :]
    return exact_plan(same_word & (tokens[None, :] >= tokens[:, None]), tokens, tokens, 1.0)


def _whole_word(layout: tuple[int, ...], word_of: IntArray, options: MaskedOptions) -> Plan:
    """Hide all tokens of a word (Kauf & Ivanova 2023)."""
    words = np.arange(len(layout))
    return exact_plan(word_of[None, :] == words[:, None], word_of, np.arange(len(word_of)), 1.0)


def _sentence_l2r(layout: tuple[int, ...], word_of: IntArray, options: MaskedOptions) -> Plan:
    """Hide each token and all later ones (Kauf & Ivanova 2023)."""
    tokens = np.arange(len(word_of))
    return exact_plan(tokens[None, :] >= tokens[:, None], tokens, tokens, 1.0)


#: Metrics by name (DESIGN, section 3).
METRICS: dict[str, Metric] = {
    "pll": _pll,
    "pll-word-l2r": _word_l2r,
    "pll-whole-word": _whole_word,
    "pll-sentence-l2r": _sentence_l2r,
    "permutation": permutation,
}


@lru_cache(maxsize=128)
def plan_for(layout: tuple[int, ...], options: MaskedOptions) -> Plan:
    """Return the plan of ``options.metric`` for words of ``layout[i]`` scored tokens each."""
    word_of = np.repeat(np.arange(len(layout)), layout)
    return METRICS[options.metric](layout, word_of, options)
