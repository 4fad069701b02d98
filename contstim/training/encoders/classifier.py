"""Acceptability classifiers as sentence models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import ModelFileError, SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, ScoreKind
from contstim.training.encoders import classifier_kind, read_record
from contstim.training.encoders.base import ENCODER_OPTIONS, FirstTokenModel

#: Options of a classifier's spec and their defaults.
CLASSIFIER_OPTIONS = {**ENCODER_OPTIONS, "output": "confidence", "members": "best"}

_OUTPUTS = {
    "confidence": "signed confidence in a label; not a probability of the sentence",
    "margin": "logit of acceptable minus logit of unacceptable; not a probability of the sentence",
}


@dataclass(frozen=True)
class ClassifierEvent(Event):
    """Definition of a classifier's score, which is not the log-probability of a sentence.

    It states the meaning of the labels, so that scores of classifiers are not compared with those
    of language models.

    Attributes
    ----------
    task
        Meaning of the two labels, for example acceptability.
    gives
        Meaning of the score.
    members
        ``best`` for a single network, ``majority of K`` for K networks that vote.
    """

    task: str = ""
    gives: str = ""
    members: str = "best"


def score_logits(logits: FloatArray, output: str) -> FloatArray:
    """Convert the logits of a binary classifier to scores, positive for acceptable.

    Parameters
    ----------
    logits
        Logits of the labels unacceptable and acceptable, shape (S, 2).
    output
        Kind of score: ``confidence`` or ``margin``.

    Returns
    -------
    array
        Scores, shape (S,). ``confidence`` is the label, -1 or 1, times its softmax probability,
        within [-1, -0.5] or (0.5, 1] (Vázquez Martínez 2021, Eq. 2.3). ``margin`` is the
        difference of the logits. Both order sentences alike, but only the confidence is bounded.
    """
    margin = logits[:, 1] - logits[:, 0]
    if output == "margin":
        return np.asarray(margin)
    confidence = 1.0 / (1.0 + np.exp(-np.abs(margin)))
    # Equal logits mean unacceptable, as with argmax.
    return np.asarray(np.where(margin > 0, confidence, -confidence))


def majority_vote(scores: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of the scores of the majority of K classifiers, K odd, divided by K.

    Parameters
    ----------
    scores
        K arrays of scores, each of shape (S,). The sign of a score is the predicted label.

    Returns
    -------
    array
        Sum of the scores of the classifiers in the majority, divided by K, shape (S,). The sign
        is the label of the majority, and a unanimous vote counts more than a divided one.
    """
    table = np.stack(scores)
    is_positive = table > 0
    positive_wins = is_positive.sum(axis=0) * 2 > len(table)
    majority = np.where(is_positive == positive_wins, table, 0.0)
    return np.asarray(majority.sum(axis=0) / len(table))


class ClassifierModel(FirstTokenModel):
    """A network that classifies sentences; its score is a confidence, positive for acceptable.

    The network is fine-tuned on acceptable and unacceptable sentences. The confidence is p - 1 if
    the probability p of the label "acceptable" is at most 1/2, and p otherwise; with the option
    ``output=margin``, the score is the difference of the logits. Only the order of the scores can
    be compared with other models, since they are not log-probabilities.

    Parameters
    ----------
    spec
        Parsed model specification; its location is the folder of the classifier.

    Raises
    ------
    SpecError
        If an option is unknown, or the option ``members=majority`` is set although the folder
        contains fewer than three voting networks.
    ModelFileError
        If the folder is missing, damaged or does not contain a classifier.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(CLASSIFIER_OPTIONS)
        members = spec.get_choice("members", ("best", "majority"), CLASSIFIER_OPTIONS["members"])
        self.output = spec.get_choice("output", _OUTPUTS, CLASSIFIER_OPTIONS["output"])
        record = read_record(spec.path, "classifier")
        # Load the best network, or all networks that vote on the label.
        try:
            names = [record["best"]] if members == "best" else list(record["majority"])
        except (KeyError, TypeError) as error:
            raise ModelFileError(
                f"the record of {spec.location!r} is incomplete ({error}); train the classifier "
                "again"
            ) from None
        if members == "majority" and len(names) < 3:
            raise SpecError(
                f"members='majority' in {str(spec)!r}: the folder contains {len(names)} voting "
                "networks, and a majority needs three; omit the option, or fine-tune with more "
                "restarts"
            )
        super().__init__(spec, names, CLASSIFIER_OPTIONS)
        self.task = str(record.get("task", "unknown"))

    @property
    def event(self) -> ClassifierEvent:
        """Meaning of the score: the confidence in a label, in place of an event's probability."""
        n_members = len(self.members)
        # With several members, the label of the majority determines the score.
        return ClassifierEvent(
            **self._define_score("classification", self.output),
            task=self.task,
            gives=_OUTPUTS[self.output],
            members="best" if n_members == 1 else f"majority of {n_members}",
        )

    @property
    def kind(self) -> ScoreKind:
        """A confidence, which is at most 1, or an unbounded margin."""
        return classifier_kind(self._spec)

    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Convert the logits (S, 2) of each member to one score per sentence, shape (S,)."""
        scores = [score_logits(logits, self.output) for logits in outputs]
        return scores[0] if len(scores) == 1 else majority_vote(scores)
