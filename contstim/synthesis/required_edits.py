"""Change the words that must change before a coordinate search starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from contstim.errors import InfeasibleError
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import find_worst_violation
from contstim.text import Sentence

if TYPE_CHECKING:
    from contstim.synthesis.coordinate_search import Search

# Maximum number of words that are scored exactly at a position that must change.
_MAX_REQUIRED_TRIALS = 64


def apply_required_edits(search: Search) -> tuple[Sentence, dict[str, float]]:
    """Change the words that must change, and other words if the constraints require it.

    The *slack* of a sentence is min_m (score_m - minimum_m) over the models m with a minimum score.
    It is negative if the sentence violates a constraint. First, the word at each required position
    is replaced by the word that gives the largest slack. While the slack is negative, the words at
    all positions are then replaced in the same way.

    Parameters
    ----------
    search
        Search after its natural sentence has been scored.

    Returns
    -------
    sentence, scores
        New sentence, and a mapping from model name to its score in nats.

    Raises
    ------
    InfeasibleError
        If no sentence with a nonnegative slack was found.
    """
    required = search.problem.edits.required_positions(search.natural)
    # First phase: change each word that must change. The slack is the minimum of (score - minimum
    # score) over the models, negative if a constraint is violated. It may decrease in this phase,
    # so its bound is -inf. The required positions after the current one have the natural word.
    sentence, slack = search.natural, -np.inf
    for number, position in enumerate(required, start=1):
        pending = required[number:]
        sentence, slack = _maximise_slack(search, sentence, position, -np.inf, pending)

    # Second phase: change any word that increases the slack, until no constraint is violated.
    has_improved = True
    while slack < 0 and has_improved:
        has_improved = False
        for position in search.positions:
            changed, new_slack = _maximise_slack(search, sentence, position, slack)
            if new_slack > slack:
                sentence, slack, has_improved = changed, new_slack, True

    scores = search.score(sentence)
    constraints = search.problem.definition.constraints
    violated, violation = find_worst_violation(constraints, search.natural_scores, scores)
    if violated is not None:
        raise InfeasibleError(
            f"no sentence was found that makes the required edits of {str(search.natural)!r} and "
            f"satisfies {violated}: {str(sentence)!r} violates it by {violation:.4g}; lower "
            "the bound, or let more words change"
        )
    return sentence, scores


def _maximise_slack(
    search: Search, sentence: Sentence, position: int, slack: float, pending: tuple[int, ...] = ()
) -> tuple[Sentence, float]:
    """Replace the word at a position by the word that gives the sentence the largest slack.

    The slack is min_m (score_m - minimum_m) over the models m with a minimum score. It is negative
    if the sentence violates a constraint.

    Parameters
    ----------
    search
        Search after its natural sentence has been scored.
    sentence
        Sentence in which the word is replaced.
    position
        Position of the word.
    slack
        Slack that the new sentence must exceed.
    pending
        Positions of other words that must change, but have not been replaced yet.

    Returns
    -------
    sentence, slack
        New sentence and its slack. If no replacement gives a slack above the argument `slack`, the
        arguments `sentence` and `slack` are returned unchanged.
    """
    edits, natural = search.problem.edits, search.natural
    required = edits.required_positions(natural)
    changed = {position, *Edits.changed_positions(natural, sentence), *required}
    if edits.max_changes is not None and len(changed) > edits.max_changes:
        return sentence, slack

    # Estimate the slack for each word that may be used.
    candidates = search.candidates(position, 0, sentence)
    mask = candidates.is_allowed.copy()
    natural_index = candidates.words.index.get(search.natural.words[position])
    if natural_index is not None and position in required:
        mask[natural_index] = False
    indices = np.flatnonzero(mask)
    estimated_slacks = np.full(len(indices), np.inf)
    for name, minimum in search.min_scores.items():
        scores = candidates.replacements[name].estimates[indices]
        estimated_slacks = np.minimum(estimated_slacks, scores - minimum)

    # Compute the slack for the permitted words with the best estimates.
    permitted: list[int] = []
    for i in indices[np.argsort(-estimated_slacks, kind="stable")].tolist():
        changed_sentence = sentence.replace(position, candidates.words.words[i])
        if _permits_word_so_far(search, changed_sentence, position, pending):
            permitted.append(i)
        if len(permitted) == _MAX_REQUIRED_TRIALS:
            break
    indices = np.array(permitted, dtype=np.int64)
    if not permitted:
        if position not in required:
            return sentence, slack
        raise InfeasibleError(
            f"position {position} of {str(search.natural)!r} must change, but no other word is "
            "allowed there; allow more words"
        )
    slacks = np.full(len(indices), np.inf)
    for name, minimum in search.min_scores.items():
        slacks = np.minimum(slacks, candidates.scores(name, indices) - minimum)
    best = int(slacks.argmax())
    if not slacks[best] > slack:
        return sentence, slack
    return sentence.replace(position, candidates.words.words[indices[best]]), float(slacks[best])


def _permits_word_so_far(
    search: Search, sentence: Sentence, position: int, pending: tuple[int, ...]
) -> bool:
    """Return whether a new word is permitted next to words that are already final.

    Other words of the sentence will still be replaced. Only the words around the new word, up to
    the nearest word that will be replaced on each side, are checked:

    - If the problem requires grammatical agreement, they must have no agreement error that the
      natural sentence does not have.
    - If they are written as text, the text must be split into the same words again.

    Parameters
    ----------
    search
        Search after its natural sentence has been scored.
    sentence
        Sentence with the new word.
    position
        Position of the new word.
    pending
        Positions of the words that will be replaced later. If it is empty, the whole sentence is
        checked with all rules of the search.
    """
    if not pending:  # all words are final: check the whole sentence with all rules
        return search.permits(sentence)
    # Words at `pending` positions will still be replaced. Check only the words between the nearest
    # pending positions to the left and to the right of the new word.
    start = max((p + 1 for p in pending if p < position), default=0)
    end = min((p for p in pending if p > position), default=len(sentence))
    span = Sentence(
        sentence.words[start:end],
        sentence.before[start:end],
        sentence.after[start:end],
        sentence.language,
    )
    new_errors = set(span.agreement_errors) - set(search.natural.agreement_errors)
    # `round_trips`: if the words are written as text, it is split into the same words again.
    return span.round_trips and not (search.problem.edits.adjacent_agreement and new_errors)
