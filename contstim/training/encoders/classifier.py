"""Acceptability classifiers: how surely a sentence is judged acceptable, as a graded score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import FloatArray, IntArray
from contstim.errors import ModelFileError, SpecError
from contstim.models import ModelSpec
from contstim.models.base import Event, ScoreKind
from contstim.training.encoders import classifier_kind, read_record
from contstim.training.encoders.base import LEARNT_OPTIONS, FirstTokenModel

#: Options of a classifier's spec and their defaults.
CLASSIFIER_OPTIONS = {**LEARNT_OPTIONS, "output": "confidence", "members": "best"}

_OUTPUTS = {
    "confidence": "signed confidence in a label; not a probability of the sentence",
    "margin": "logit of acceptable minus logit of unacceptable; not a probability of the sentence",
}


@dataclass(frozen=True)
class ClassifierEvent(Event):
    """What a classifier scores: its label, not a sentence's probability.

    Attributes
    ----------
    task
        What the labels are.
    gives
        What the number is.
    members
        ``best``: one network; ``majority of K``: K networks that vote.
    """

    task: str = ""
    gives: str = ""
    members: str = "best"


def score_logits(outputs: FloatArray, output: str) -> FloatArray:
    """Turn logits into a graded judgement whose sign is the label.

    Parameters
    ----------
    outputs
        Logits of the labels unacceptable and acceptable, shape (S, 2).
    output
        ``confidence`` or ``margin``.

    Returns
    -------
    array
        Shape (S,). ``confidence``: the label, -1 or 1, times its softmax probability, so within
        [-1, -0.5] or (0.5, 1] (Vazquez Martinez 2021, Eq. 2.3). ``margin``: the difference of the
        logits, nats of odds; it orders sentences in the same way and does not level off.
    """
    margin = outputs[:, 1] - outputs[:, 0]
    if output == "margin":
        return np.asarray(margin)
    sure = 1.0 / (1.0 + np.exp(-np.abs(margin)))
    # Of equal logits the first label is taken, as argmax does.
    return np.asarray(np.where(margin > 0, sure, -sure))


def majority_vote(judgements: Sequence[FloatArray]) -> FloatArray:
    """Join the judgements of K members, an odd number, by majority.

    The label is that of more members; its grade is the sum of their judgements over K, so that a
    divided vote counts less than a unanimous one and the sign is always the majority's.
    """
    table = np.stack(judgements)
    positive = table > 0
    wins = positive.sum(axis=0) * 2 > len(table)
    return np.asarray(np.where(positive == wins, table, 0.0).sum(axis=0) / len(table))


class ClassifierModel(FirstTokenModel):
    """A network fine-tuned to tell acceptable from unacceptable sentences.

    Its score is comparable in order with other models' and has no unit of theirs: it is the
    probability of no sentence.

    Raises
    ------
    SpecError
        For an unknown option, or ``members=majority`` of a folder with fewer than three.
    ModelFileError
        If the folder is missing, damaged or holds no classifier.
    """

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(CLASSIFIER_OPTIONS)
        members = spec.get_choice("members", ("best", "majority"), CLASSIFIER_OPTIONS["members"])
        self.output = spec.get_choice("output", _OUTPUTS, CLASSIFIER_OPTIONS["output"])
        record = read_record(spec.path, "classifier")
        try:
            names = [record["best"]] if members == "best" else list(record["majority"])
        except (KeyError, TypeError) as error:
            raise ModelFileError(
                f"the record of {spec.location!r} is incomplete ({error}); make the classifier "
                "again"
            ) from None
        if members == "majority" and len(names) < 3:
            raise SpecError(
                f"members='majority' in {str(spec)!r}: the folder holds {len(names)} networks, and "
                "a majority needs three; leave the option out, or fine-tune with more restarts"
            )
        super().__init__(spec, names, CLASSIFIER_OPTIONS)
        self.task = str(record.get("task", "unknown"))

    @property
    def event(self) -> ClassifierEvent:
        """What the score is."""
        n = len(self.members)
        return ClassifierEvent(
            **self._event("classification", self.output),
            task=self.task,
            gives=_OUTPUTS[self.output],
            members="best" if n == 1 else f"majority of {n}",
        )

    @property
    def kind(self) -> ScoreKind:
        """A confidence, at most 1, or a margin."""
        return classifier_kind(self._spec)

    def combine(self, outputs: Sequence[FloatArray], n_tokens: IntArray) -> FloatArray:
        """Turn each member's logits (S, 2) into one judgement (S,)."""
        judgements = [score_logits(logits, self.output) for logits in outputs]
        return judgements[0] if len(judgements) == 1 else majority_vote(judgements)
