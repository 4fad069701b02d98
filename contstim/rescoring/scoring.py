"""Scores of hypotheses under a sentence model, each distinct sentence once."""

from __future__ import annotations

from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache
from contstim.progress import track
from contstim.rescoring.forms import SentenceForm
from contstim.rescoring.nbest import NBest

__all__ = ["score_hypotheses"]


# Sentences scored together: many lists, so that a model can batch and share what they share.
_CHUNK = 1024


def score_hypotheses(
    nbest: NBest,
    model: SentenceModel,
    form: SentenceForm | None = None,
    cache: ScoreCache | None = None,
) -> dict[str, float]:
    """Score the hypotheses of all utterances.

    Sentences that are alike once the form is applied are scored once, whichever utterances they
    belong to; they go to the model in large batches, in the order of the file, so that it can
    compute once what several share (causal transformers: the words before the first difference).

    Parameters
    ----------
    nbest
        The n-best lists.
    model
        The model.
    form
        How hypotheses are written for the model; as given by default.
    cache
        Where scores are kept and looked up.

    Returns
    -------
    dict
        From each hypothesis as given to its score, as the model's `score` gives it (nats).

    Raises
    ------
    InputError
        If the model cannot score a hypothesis (an unknown word, for example); the message names
        the utterance.
    """
    write = SentenceForm() if form is None else form
    written = {text: write(text) for text in nbest.texts}
    sentences = list(dict.fromkeys(written.values()))
    starts = range(0, len(sentences), _CHUNK)
    scores: dict[str, float] = {}
    for start in track(starts, len(starts), f"scoring with {model.spec}"):
        chunk = sentences[start : start + _CHUNK]
        try:
            totals = model.totals(chunk) if cache is None else cache.totals(model, chunk)
        except InputError:
            _blame(nbest, model, written, chunk)
            raise
        scores.update(zip(chunk, totals.score.tolist(), strict=True))
    return {text: scores[sentence] for text, sentence in written.items()}


def _blame(nbest: NBest, model: SentenceModel, written: dict[str, str], chunk: list[str]) -> None:
    """Raise the error of the first hypothesis that the model cannot score, with its utterance."""
    among = set(chunk)
    for utterance in nbest.utterances:
        for text in utterance.texts:
            if written[text] in among:
                try:
                    model.totals([written[text]])
                except InputError as error:
                    raise InputError(f"the utterance {utterance.id!r}: {error}") from None
