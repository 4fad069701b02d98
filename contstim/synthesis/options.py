"""The options of contstim's own strategies, apart from their code: who declares options loads none.

The strategy of another package declares its options itself.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contstim.errors import InputError
from contstim.settings import Count, Natural, one_of, option, settings
from contstim.text import length_range


@settings
class NoOptions:
    """Options of a strategy that has none."""


@settings
class BoundedOptions:
    """Options of `contstim.synthesis.bounded.Bounded`.

    Attributes
    ----------
    budget
        Most exact scores asked of the model whose scores cost most, at one position of one
        sentence; each other one may be asked for as many times more as its scores cost less,
        128 at most. None: no limit.
    first
        The budget at which a position is left first.
    inputs
        Most that the exact scores of one sentence may cost, in inputs of the models (`Hints.cost`;
        what candidates share is not counted). Candidates for whose score and whose verification
        not enough is left are not scored. By default 25,000, or what 48 scores of the natural
        sentence by all models cost, if that is more. Not looked at without a budget.
    """

    budget: Count | None = option(
        64,
        "at most so many exact scores at one position, of the model whose scores cost most",
        metavar="N",
    )
    first: Count = 4
    inputs: Count | None = option(
        None,
        "most that the exact scores of one sentence may cost, in inputs of the networks (default: "
        "25000, or what 48 scores of the natural sentence cost; a score by a left-to-right model "
        "costs one at most, a pll of eight words about eight, a permutation score some hundreds)",
        metavar="N",
    )


@settings
class BeamOptions(BoundedOptions):
    """Options of `contstim.synthesis.ngrams.beam.Beam`, which has all of the other default as well.

    Attributes
    ----------
    width
        The beginnings kept at each place.
    """

    width: Count = option(48, "beginnings of sentences that are kept at each place", metavar="N")


# Marks that end sentences.
_ENDING = ".?!…。！？"


@settings
class FluentOptions:
    """Options of `contstim.synthesis.fluent.Fluent`: how sentences are written.

    Attributes
    ----------
    writer
        The spec of the model that writes: a causal one.
    power
        What the writer's probabilities are raised to.
    share
        The most probable share of the words that is drawn from.
    least
        How probable a word must be, as a share of the most probable word's probability.
    tilt
        By what the models' log-probabilities are multiplied.
    ends
        The writer's least probability of the mark that ends a sentence.
    lengths
        Numbers of words, ``7-9``; None: from a word less to a word more than in the natural ones.
    marks
        The marks that may end sentences, each one character.
    commas
        ``yes`` or ``no``: whether commas may stand in sentences.
    rows
        Sentences that are begun together, after one prompt.
    prompt
        Natural sentences of the prompt; 0 for a writer that was trained on single sentences.
    begun
        Sentences that are begun for each side of each pair, or for the one natural sentence.
    guide
        The spec of a model that tilts in place of those that do not score from left to right, which
        else do not tilt.
    """

    writer: str = option("contstim:smollm2", "the model that writes", "SPEC")
    power: Annotated[float, Field(ge=0, le=100)] = option(
        1.8, "what the writer's probabilities are raised to", "NUMBER"
    )
    share: Annotated[float, Field(gt=0, le=1)] = option(
        0.95, "the most probable share of words that is drawn from", "SHARE"
    )
    least: Annotated[float, Field(ge=0, le=1)] = option(
        0.01, "the least probability of a word, as a share of the most probable one's", "SHARE"
    )
    tilt: Annotated[float, Field(ge=0, le=1000)] = option(
        4.5, "by what the models' log-probabilities are multiplied", "NUMBER"
    )
    ends: Annotated[float, Field(ge=0, le=1)] = option(
        0.45, "the writer's least probability of the mark that ends a sentence", "PROBABILITY"
    )
    lengths: str | None = option(
        None,
        "numbers of words, such as 7-9 (default: a word less to a word more than in the "
        "natural sentences)",
        "N-M",
    )
    marks: str = option(".", "the marks that may end sentences, such as .?!", "MARKS")
    commas: Annotated[str, one_of(("no", "yes"))] = option(
        "no", "whether commas may stand in sentences: no or yes", "YES"
    )
    rows: Count = option(32, "sentences that are begun together, after one prompt", "N")
    prompt: Natural = option(
        8, "natural sentences of the prompt; 0 for a writer that was trained on single ones", "N"
    )
    begun: Count = option(800, "sentences that are begun for each side of a pair", "N")
    guide: str | None = option(
        None, "a model that tilts in place of those that do not score from left to right", "SPEC"
    )

    def __post_init__(self) -> None:
        if self.lengths is not None:
            length_range(self.lengths)
        if not self.marks or {*self.marks} - {*_ENDING}:
            raise InputError(f"marks={self.marks!r} holds what ends no sentence; give .?! or one")


@settings
class LeftwardOptions(BoundedOptions):
    """Options of `contstim.synthesis.leftward.Leftward`, which has all of `bounded` as well.

    Attributes
    ----------
    walks
        Walks for each sentence.
    width
        Beginnings that are kept at each place. None: 64; 256 where scores are to be kept that are
        not known at once, for which sentences are harder to find and `bounded` costs more; 96 where
        a model scores beginnings as sentences, which costs most.
    most_alike
        How many of these may end in one word, and how many may begin with the same three. None: a
        quarter of them.
    part
        Of the words, what each walk writes with.
    climb
        ``yes`` or ``no``: whether the words of what is written are then replaced one at a time.
    guide
        The spec of a model that proposes in place of those that do not score from left to right.
        None: masked models propose themselves whose sentences cost an input a token, as pll does,
        and with others it is `bounded`.
    """

    walks: Count = option(2, "walks for each sentence that is written", "N")
    width: Count | None = option(
        None,
        "beginnings of sentences that are kept at each place (default: 64, 256 where a network's "
        "score is to be kept, 96 where a masked model's)",
        "N",
    )
    most_alike: Count | None = option(
        None,
        "beginnings that may end, or begin, with the same words (default: a quarter of all)",
        "N",
    )
    part: Annotated[float, Field(gt=0, le=1)] = option(
        0.75, "part of the words that each walk writes with", "SHARE"
    )
    climb: Annotated[str, one_of(("no", "yes"))] = option(
        "no", "whether words are then replaced one at a time, as by bounded: no or yes", "YES"
    )
    guide: str | None = option(
        None,
        "a model that proposes where one does not score from left to right (default: that model "
        "itself with the metric pll and its like; else none, and it is bounded there)",
        "SPEC",
    )


@settings
class InfillOptions(BoundedOptions):
    """Options of `contstim.synthesis.infill.Infill`, besides those of `BoundedOptions`.

    Attributes
    ----------
    by
        The spec of the model that proposes words: a causal or a masked one.
    span
        Most neighbouring words that are written together.
    fillings
        Most fillings of a span that are scored by the problem's models whose scores are not known
        at once.
    visits
        Most spans that are looked at, in one sentence.
    """

    by: str = option(
        "contstim:smollm2?prompt=natural", "the model that proposes words of a span", metavar="SPEC"
    )
    span: Annotated[int, Field(ge=1, le=3)] = option(
        3, "most neighbouring words that are written together, 1 to 3", metavar="N"
    )
    fillings: Count = option(16, "fillings of a span that networks score", metavar="N")
    visits: Count = option(200, "spans that are looked at in one sentence", metavar="N")


#: Contstim's own strategies by name: where the code is, and its options.
OWN_STRATEGIES: dict[str, tuple[str, type]] = {
    "beam": ("contstim.synthesis.ngrams.beam:Beam", BeamOptions),
    "bounded": ("contstim.synthesis.bounded:Bounded", BoundedOptions),
    "exhaustive": ("contstim.synthesis.exhaustive:Exhaustive", NoOptions),
    "fluent": ("contstim.synthesis.fluent:Fluent", FluentOptions),
    "leftward": ("contstim.synthesis.leftward:Leftward", LeftwardOptions),
    "infill": ("contstim.synthesis.infill:Infill", InfillOptions),
}
