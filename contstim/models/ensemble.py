"""Several models, or ways of asking one model, that judge a sentence together.

Ide et al. (2025), NAACL, find that log-probabilities within a template and answers to questions
are right together more often than either alone: of two sentences each of five such scores prefers
one, and most votes win. Votes are about pairs. What a sentence has by itself, so that it can be
searched for and pitted against another model, is the mean of the scores, each in units of how much
it varies over natural sentences: a vote that counts by how sure each is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contstim.arrays import BoolArray
from contstim.errors import InputError, SpecError
from contstim.files import digest_of
from contstim.models import ModelSpec
from contstim.models.base import (
    Event,
    Hints,
    Replacements,
    ScoreKind,
    SentenceModel,
    SentenceParts,
    Totals,
    package_names,
)
from contstim.models.registry import load_model
from contstim.tables import read_table
from contstim.text import Sentence, WordList
from contstim.text.language import Language


@dataclass(frozen=True)
class EnsembleEvent(Event):
    """What is scored by each member, and its scale."""

    members: str = ""


class EnsembleModel(SentenceModel):
    """The mean of several models' scores, each over its scale; spec ``ensemble:FILE``.

    Parameters
    ----------
    spec
        The spec; its location is a table with the columns ``model``, a spec each, and ``scale``,
        the standard deviations of their scores of natural sentences
        (`contstim.synthesis.targets.standard_deviations`).

    Raises
    ------
    SpecError
        If there are not two models, a scale is not above 0, or a lower score is the better.
    """

    kind = ScoreKind(
        name="mean of scores",
        unit="standard deviations",
        highest=math.inf,
        splits_over_words=False,
        differs_in_nats=False,
    )

    def __init__(self, spec: ModelSpec) -> None:
        spec.check_options(())
        super().__init__(spec)
        table = read_table(spec.path, ("model", "scale"))
        self.members = [load_model(str(member)) for member in table["model"]]
        self.scales = [float(scale) for scale in table["scale"]]
        if len(self.members) < 2:
            raise SpecError(
                f"{str(spec)!r} lists {len(self.members)} model; list two or more, a row each"
            )
        for member, scale in zip(self.members, self.scales, strict=True):
            if not 0 < scale < math.inf:
                raise SpecError(
                    f"the scale of {member.spec!r} in {str(spec)!r} is {scale:g}; give the "
                    "standard deviation of its scores of natural sentences"
                )
            if not member.kind.rises_with_acceptability:
                raise SpecError(
                    f"of {member.spec!r} in {str(spec)!r} the lower score is the better; leave its "
                    "reduction out"
                )

    @property
    def event(self) -> EnsembleEvent:
        """What the members score."""
        pairs = zip(self.members, self.scales, strict=True)
        members = "; ".join(f"{m.spec} over {s:g} ({m.event.digest})" for m, s in pairs)
        return EnsembleEvent(
            units="sentences",
            start="as each has it",
            end="as each has it",
            punctuation="as each has it",
            unknown="error" if any(m.event.unknown == "error" for m in self.members) else "unk",
            metric="mean of models",
            reduction="scaled",
            members=members,
        )

    @property
    def fingerprint(self) -> str:
        """Of the members' weights and scales."""
        return digest_of([[m.fingerprint for m in self.members], self.scales])

    @property
    def packages(self) -> tuple[str, ...]:
        """Those of the members."""
        return tuple(sorted({name for m in self.members for name in package_names(m)}))

    @property
    def resolution(self) -> float:
        """The mean of the members', over their scales."""
        pairs = zip(self.members, self.scales, strict=True)
        return float(np.mean([member.resolution / scale for member, scale in pairs]))

    @property
    def language(self) -> Language:
        """The first member's."""
        return self.members[0].language

    def check_language(self, language: Language, sentences: Sequence[str]) -> None:
        """Have every member refuse sentences whose words are not its own."""
        for member in self.members:
            member.check_language(language, sentences)

    def knows(self, words: Sequence[str]) -> BoolArray:
        """Return which words all members know; shape (V,)."""
        known = [member.knows(words) for member in self.members]
        return np.asarray(np.all(known, axis=0), dtype=np.bool_)

    def holds(self, sentences: Sequence[str]) -> BoolArray:
        """Return which sentences all members can score; shape (S,)."""
        held = [member.holds(sentences) for member in self.members]
        return np.asarray(np.all(held, axis=0), dtype=np.bool_)

    def parts(self, sentences: Sequence[str]) -> list[SentenceParts]:
        """Refuse: words have no shares of a mean of models."""
        raise InputError(
            f"{self.spec} gives one number a sentence, of which words have no shares; ask for "
            "scores of sentences"
        )

    def totals(self, sentences: Sequence[str]) -> Totals:
        """Score sentences by each member; how many units they have differs between these."""
        every = [member.totals(sentences) for member in self.members]
        pairs = list(zip(every, self.scales, strict=True))
        n = len(pairs)
        return Totals(
            np.sum([t.score / scale for t, scale in pairs], axis=0) / n,
            np.zeros_like(every[0].n_tokens),
            every[0].n_words,
            np.sqrt(np.sum([(t.stderr / scale) ** 2 for t, scale in pairs], axis=0)) / n,
        )

    def replacements(self, sentence: Sentence, position: int, words: WordList) -> Replacements:
        """Score candidates for one position: bounds and estimates are the members' means."""
        tables = [member.replacements(sentence, position, words) for member in self.members]
        pairs = list(zip(tables, self.scales, strict=True))
        costs = [table.hints.cost for table in tables]
        return Replacements(
            np.mean([table.upper / scale for table, scale in pairs], axis=0),
            np.mean([table.estimate / scale for table, scale in pairs], axis=0),
            exact=all(table.exact for table in tables),
            score=lambda index: np.mean([t.score(index) / scale for t, scale in pairs], axis=0),
            hints=Hints(cost=np.sum(np.broadcast_arrays(*costs), axis=0).astype(float)),
        )
