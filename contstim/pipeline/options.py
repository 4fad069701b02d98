"""How sentences are to be written: the table ``[synthesis]`` of study plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from contstim.errors import InfeasibleError, InputError
from contstim.models.base import SentenceModel
from contstim.pipeline.work import model_on_processor
from contstim.search import DEFAULT, OPTION_OF, STRATEGIES, strategy_called, with_options
from contstim.search.problem import Edits
from contstim.search.targets import (
    LOSSES,
    NAMED_TARGETS,
    Sides,
    common_failure,
    one_against_all,
    parse_floor,
)
from contstim.settings import Count, Natural, Several, one_of, option, settings
from contstim.text import Sentence
from contstim.text.diversity import MOST_USE
from contstim.text.words import LIKENESSES

#: How natural sentences come to the model pairs: each to one pair, or all to all.
STARTS = ("partitioned", "shared", "all")


def _starts(value: str) -> str:
    return "partitioned" if value == "dealt" else value  # its name in plans written before


#: What is searched for: triplets of a pair of specs, or sentences on which sets of models disagree.
Wanted = tuple[str, str] | Sides


@settings
@with_options
class SynthesisOptions:
    """``[synthesis]``: how sentences are written.

    Attributes
    ----------
    strategy
        The word search. The options that strategies declare are fields as well, None where not
        given.
    starts
        ``partitioned``: the sentences are shuffled by the study's seed and shared out to the model
        pairs in turn, so that each starts one pair's triplets (as published); ``dealt`` means the
        same. ``shared``: every pair may start from every sentence, in an order of its own.
        ``all``: every pair starts from every sentence, in the order given.
    per_pair
        At most so many start sentences a pair; by default all of its own.
    per_sentence
        At most so many different triplets from one start sentence.
    minimum_drop
        Only triplets in which each rejecting model's log-probability falls by so many nats.
    target
        ``pair``: triplets of every two models. ``one-against-all``: sentences that each model in
        turn is alone to reject, and to accept. ``split``: those that the models `reject` reject
        and the models `accept` accept. ``common-failure``: those that all models accept and
        `reference` rejects.
    reject, accept, reference
        Models, of the study or not.
    loss
        What counts of the falls of several rejecting models, each in standard deviations of its
        scores of the natural sentences: ``max``, the least fall; ``mean``.
    margin
        By how many nats accepting models' scores may fall.
    floors
        Scores that models keep, as `parse_floor` reads them.
    most_changes, fixed, changed, words_at
        What may change: at most so many words; positions that stay; positions that must change;
        by position, the words that may stand there. Positions count from 0.
    certificate
        Whether rows say how much there was to find (`Synthesis.reached`), of models of n-grams.
    alike
        What a word shares with the natural sentence's word that it replaces: ``class``, its word
        class; ``tag``, its Penn Treebank tag as well (`words_alike`). Words without tags stay.
    most_use
        In what share of a pair's sentences a word may be, at most (`WordLimit`); 1: in any.
    """

    strategy: Annotated[str, one_of(STRATEGIES)] = option(
        DEFAULT,
        "how words are chosen (default: bounded, which scores the most promising words first "
        "within a budget, and writes whole sentences from the left for models of n-grams)",
    )
    starts: Annotated[str, AfterValidator(_starts), one_of(STARTS)] = option(
        "partitioned",
        "sentences that a pair starts from: all, in the order given (the default); shared, in an "
        "order of its own; partitioned, each sentence for one pair",
    )
    per_pair: Count | None = option(None, "start sentences a pair, at most", "N")
    per_sentence: Annotated[int, Field(ge=1, le=1000)] = option(
        1, "triplets a natural sentence", "N"
    )
    minimum_drop: Annotated[float, Field(ge=0, le=1e6)] = option(
        0.0, "leave out sentences whose log-probability falls by less than this", "NATS"
    )
    target: Annotated[str, one_of(NAMED_TARGETS)] = "pair"
    reject: Several[str] = option((), "a model that is to reject", "SPEC")
    accept: Several[str] = option((), "a model that is to accept", "SPEC")
    reference: str | None = option(
        None,
        "the model outside the set that is to reject, for --target common-failure",
        "SPEC",
    )
    loss: Annotated[str, one_of(LOSSES)] = option(
        "max",
        "what counts of the falls of several rejecting models, in standard deviations of their "
        "scores of natural sentences: the least fall (max, the default) or the mean",
    )
    margin: Annotated[float, Field(ge=0, le=1e6)] = option(
        0.0, "by how much an accepting model's score may fall", "NATS"
    )
    floors: Several[str] = option(
        (),
        "a score that a model must keep, MODEL[/word|/token]>=VALUE or >=natural[-MARGIN], such as "
        "contstim:gpt>=natural-5, or plausible (contstim:gpt/word>=natural-0.5) or strict "
        "(natural-0.1)",
        "FLOOR",
        "floor",
    )
    most_changes: Count | None = option(None, "words that may change, at most", "N")
    fixed: Several[Natural] = option((), "a position whose word stays, counted from 0", "POSITION")
    changed: Several[Natural] = option(
        (), "a position whose word must change, counted from 0", "POSITION"
    )
    words_at: dict[str, Several[str]] = field(default_factory=dict)
    certificate: bool = option(
        False,
        "add to each row at least what part of the lowest possible loss was reached, 0 to 1; for "
        "models of n-grams",
    )
    alike: Annotated[str, one_of(LIKENESSES)] | None = option(
        None,
        "what a word shares with the natural sentence's word that it replaces: its word class, or "
        "its Penn Treebank tag (a plural noun for a plural noun)",
    )
    most_use: Annotated[float, Field(ge=1e-6, le=1)] = option(
        MOST_USE,
        "in what share of a pair's synthetic sentences a word may be, at most, unless the natural "
        f"sentences have it more often (default: {MOST_USE:g}; 1: no limit)",
        "SHARE",
    )

    def __post_init__(self) -> None:
        self._check_target()
        self.side(("rejecting",), ("accepting",))  # refuses bad floors and edits
        strategy_called(self.strategy, **self.of_strategy)  # refuses what it does not have

    def _check_target(self) -> None:
        if self.target == "split" and not (self.reject and self.accept):
            raise InputError("the target 'split' needs both sides; give reject and accept")
        if self.target != "split" and (self.reject or self.accept):
            raise InputError(
                f"reject and accept go with the target 'split', and the target is {self.target!r}; "
                "leave them out"
            )
        if self.target == "common-failure" and self.reference is None:
            raise InputError(
                "the target 'common-failure' needs a model outside the set that is to reject; give "
                "it as reference"
            )
        if self.target != "common-failure" and self.reference is not None:
            raise InputError(
                "reference, the model outside the set that is to reject, goes with the target "
                f"'common-failure', and the target is {self.target!r}; leave it out"
            )
        if self.target != "pair" and (self.per_sentence != 1 or self.minimum_drop != 0):
            raise InputError(
                "per_sentence and minimum_drop are for triplets, and the target is "
                f"{self.target!r}; leave them out"
            )
        if self.target == "split":
            self.side(self.reject, self.accept)

    def side(self, reject: Sequence[str], accept: Sequence[str]) -> Sides:
        """Return what is wanted of some models, by their specs as given."""
        words = []
        for position, listed in self.words_at.items():
            if not (position.isascii() and position.isdigit()):
                raise InputError(f"words_at has the position {position!r}; give whole numbers")
            words.append((int(position), tuple(listed)))
        return Sides(
            tuple(reject),
            tuple(accept),
            self.margin,
            tuple(map(parse_floor, self.floors)),
            Edits(self.most_changes, self.fixed, self.changed, tuple(words)),
            self.loss,
        )

    def sides(self, models: Sequence[str]) -> list[Sides]:
        """Return what is wanted of compared models, by their specs; none for triplets."""
        wanted: dict[str, Callable[[], list[tuple[tuple[str, ...], tuple[str, ...]]]]] = {
            "pair": list,
            "one-against-all": lambda: one_against_all(models),
            "split": lambda: [(self.reject, self.accept)],
            "common-failure": lambda: [common_failure(models, self.reference or "")],
        }
        return [self.side(reject, accept) for reject, accept in wanted[self.target]()]

    @property
    def further(self) -> tuple[str, ...]:
        """The specs of models that the options name."""
        own = self.side(self.reject or ("rejecting",), self.accept or ("accepting",))
        named = (*self.reject, *self.accept, *(floor.model for floor in own.floors))
        return tuple(dict.fromkeys(named + ((self.reference,) if self.reference else ())))

    @property
    def of_strategy(self) -> dict[str, Any]:
        """The strategy's options that are given."""
        options = {option: getattr(self, option) for option in OPTION_OF}
        return {option: value for option, value in options.items() if value is not None}

    def check_certificates(self, starts: Mapping[Wanted, Sequence[str]]) -> None:
        """Check that there are certificates, if they are asked for; loads the models.

        Raises
        ------
        InputError
            As `contstim.search.ngrams.certificate.check_bounded`.
        """
        if not self.certificate:
            return
        from contstim.search.ngrams.certificate import check_bounded  # of no use to networks

        loaded = dict[str, SentenceModel]()
        for wanted, sentences in starts.items():
            sides = wanted if isinstance(wanted, Sides) else self.side(wanted[:1], wanted[1:])
            for spec in sides.models:
                if spec not in loaded:
                    loaded[spec] = model_on_processor(spec)
            check_bounded([loaded[spec] for spec in sides.models], sentences)

    def check_words(self, specs: Iterable[str], sentences: Sequence[str]) -> None:
        """Check the words listed for positions before anything is searched; loads the models.

        Raises
        ------
        InfeasibleError
            If a model knows none of a position's words, with the punctuation of any sentence there.
        """
        parsed = [Sentence.parse(sentence) for sentence in sentences]
        for model in map(model_on_processor, specs if self.words_at else ()):
            for position, words in ((int(p), listed) for p, listed in self.words_at.items()):
                long = [sentence for sentence in parsed if position < len(sentence.words)]
                marks = {(sentence.before[position], sentence.after[position]) for sentence in long}
                surfaces = [before + word + after for before, after in marks for word in words]
                if surfaces and not model.knows(surfaces).any():
                    raise InfeasibleError(
                        f"none of the {len(words)} words listed for position {position} is known "
                        f"to {model.spec}; list words it knows"
                    )
