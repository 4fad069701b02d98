"""How sentences are to be written: the table ``[synthesis]`` of study plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from itertools import chain
from typing import Annotated, Any, Self

from pydantic import Field

from contstim.errors import InfeasibleError, InputError
from contstim.models.base import SentenceModel
from contstim.pipeline.stages import StageOptions, StudyPlan
from contstim.pipeline.work import model_on_processor
from contstim.settings import Count, Natural, Several, build, one_of, option, settings
from contstim.synthesis import (
    STRATEGIES,
    check_options,
    default_of,
    options_of,
    owners_of_options,
    settings_of,
    strategy_called,
)
from contstim.synthesis.problem import Edits, check_different
from contstim.synthesis.sweeps import Strategy
from contstim.synthesis.targets import (
    LOSSES,
    SYNTHESIS_TARGETS,
    Goal,
    Sides,
    SynthesisTarget,
    parse_floors,
)
from contstim.text import Sentence
from contstim.text.diversity import MOST_USE
from contstim.text.language import Language
from contstim.text.languages import ENGLISH
from contstim.text.words import LIKENESSES

#: How natural sentences come to the model pairs: each to one pair, or all to all.
STARTS = ("partitioned", "shared", "all")


@settings
class SynthesisOptions(StageOptions):
    """``[synthesis]``: how sentences are written.

    Attributes
    ----------
    strategy, of_strategy
        The word search (None: `default_strategy`), and those of its own options that are given; in
        a study plan these stand beside the others.
    starts
        ``partitioned``: the sentences are shuffled by the study's seed and shared out to the model
        pairs in turn, so that each starts one pair's triplets (as published). ``shared``: every
        pair may start from every sentence, in an order of its own. ``all``: every pair starts from
        every sentence, in the order given.
    per_pair
        At most so many start sentences a pair; by default all of its own.
    per_sentence
        At most so many different triplets from one start sentence.
    minimum_drop
        Only triplets in which each rejecting model's log-probability falls by so many nats.
    target
        One of `SYNTHESIS_TARGETS`. ``pair``: triplets of every two models, or of `pairs`.
        ``one-against-all``: sentences that each model in turn is alone to reject, and to accept.
        ``split``: those that the models `reject` reject and the models `accept` accept.
        ``common-failure``: those that all models accept and `reference` rejects.
    pairs, reject, accept, reference
        Models, of the study or not.
    loss
        What counts of the falls of several rejecting models, each in standard deviations of its
        scores of the natural sentences: ``max``, the least fall; ``mean``; another of
        `LOSSES`.
    margin
        By how many nats accepting models' scores may fall.
    floors
        Scores that models keep, as `parse_floors` reads them.
    most_changes, fixed, changed, words_at
        What may change: at most so many words; positions that stay; positions that must change;
        by position, the words that may stand there. Positions count from 0.
    agree
        Whether neighbours must go together (`Language.agreement`).
    certificate
        Whether rows say how much there was to find (`Synthesis.reached`), of models of n-grams.
    alike
        What a word shares with the natural sentence's word that it replaces: ``class``, its word
        class; ``tag``, its Penn Treebank tag as well (`words_alike`). Words without tags stay.
    same_tokens
        Whether each model that cuts words must have as many tokens of a sentence as of the natural
        one.
    most_use
        In what share of a pair's sentences a word may be, at most (`WordLimit`); 1: in any.
    """

    strategy: Annotated[str, one_of(STRATEGIES)] | None = option(
        None,
        "how words are chosen (default: whole sentences from the left, by beam where all models "
        "are n-grams, else by leftward; bounded, the most promising words first, where nothing but "
        "its budget is given)",
    )
    of_strategy: dict[str, Any] = field(default_factory=dict)
    starts: Annotated[str, one_of(STARTS)] = option(
        "partitioned",
        "sentences that a pair starts from: all, in the order given (the default of the command); "
        "shared, in an order of its own; partitioned, each sentence for one pair (the default of "
        "study plans)",
    )
    per_pair: Count | None = option(None, "start sentences per pair, at most", "N")
    per_sentence: Annotated[int, Field(ge=1, le=1000)] = option(
        1, "triplets a natural sentence", "N"
    )
    minimum_drop: Annotated[float, Field(ge=0, le=1e6)] = option(
        0.0, "leave out sentences whose log-probability falls by less than this", "NATS"
    )
    target: Annotated[str, one_of(SYNTHESIS_TARGETS)] = "pair"
    pairs: Several[Several[str]] = ()
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
    agree: bool = option(
        False,
        "neighbours must go together as their language has it, such as a and an, or le and l', but "
        "for those of the natural sentence",
    )
    certificate: bool = option(
        False,
        "add to each row at least what part of the lowest loss was reached that its words allow "
        "(under --most-use those that are left), 0 to 1; for models of n-grams",
    )
    same_tokens: bool = option(
        False,
        "write sentences that each model cuts into as many tokens as the natural one",
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
        # Refuses options that it does not have.
        check_options(
            self.strategy or default_of(self.of_strategy, at_once=True), **self.of_strategy
        )

    @classmethod
    def read(cls, table: object, key: str) -> Self:
        """Make the options of a table of a study plan, `key`, in which the strategy's own stand."""
        if not isinstance(table, Mapping):
            return build(cls, table, key)
        of_strategies = owners_of_options().keys() - {item.name for item in fields(cls)}
        given = {name: value for name, value in table.items() if name in of_strategies}
        values = {name: value for name, value in table.items() if name not in of_strategies}
        strategy = str(table.get("strategy", default_of(given, at_once=True)))
        if given and strategy in STRATEGIES and given.keys() <= options_of(strategy).keys():
            build(settings_of(strategy), given, key)  # names the key whose value is refused
        return build(cls, {"of_strategy": given, **values}, key)

    @property
    def steering(self) -> Strategy | None:
        """The strategy itself; None where the models decide."""
        return None if self.strategy is None else strategy_called(self.strategy, **self.of_strategy)

    @property
    def is_pooled(self) -> bool:
        """Whether what is written is one pool: not where words of natural sentences stay."""
        edits = self.side(("rejecting",), ("accepting",)).edits
        pooled = self.steering is not None and self.steering.pooled
        return pooled and edits == Edits() and self.alike is None

    @property
    def aim(self) -> SynthesisTarget:
        """The target itself."""
        return SYNTHESIS_TARGETS[self.target]

    def _check_target(self) -> None:
        aim, options = self.aim, ("pairs", "reject", "accept", "reference")
        for name in options:
            if getattr(self, name) and name not in (*aim.needs, *aim.may):
                owners = [
                    other for other, of in SYNTHESIS_TARGETS.items() if name in (*of.needs, *of.may)
                ]
                raise InputError(
                    f"{name} goes with the target {' or '.join(map(repr, owners))}, and the target "
                    f"is {self.target!r}; leave it out"
                )
        if missing := [name for name in aim.needs if not getattr(self, name)]:
            raise InputError(f"the target {self.target!r} needs {' and '.join(missing)}; give that")
        if not aim.triplets and (self.per_sentence != 1 or self.minimum_drop != 0):
            raise InputError(
                "per_sentence and minimum_drop are for triplets, and the target is "
                f"{self.target!r}; leave them out"
            )
        self.side(self.reject or ("rejecting",), self.accept or ("accepting",))
        once = set[frozenset[str]]()
        for pair in self.pairs:
            if len(pair) != 2:
                raise InputError(f"the pair {list(pair)} has {len(pair)} models; give two")
            check_different("a pair needs two", pair)
            if frozenset(pair) in once:
                raise InputError(
                    f"the pair {pair[0]!r} and {pair[1]!r} is given twice; give each pair once, "
                    "either way round"
                )
            once.add(frozenset(pair))

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
            tuple(chain.from_iterable(map(parse_floors, self.floors))),
            Edits(
                self.most_changes,
                self.fixed,
                self.changed,
                tuple(words),
                self.agree,
                self.same_tokens,
            ),
            self.loss,
        )

    def check(self, plan: StudyPlan) -> None:
        """Refuse models that do not do for the target."""
        self.goals(plan.models)

    def goals(self, models: Sequence[str]) -> list[Goal]:
        """Return what is wanted of compared models, by their specs."""
        taken = (*self.aim.needs, *self.aim.may)
        return self.aim.goals(models, **{name: getattr(self, name) for name in taken})

    def sides_of(self, goal: Goal) -> list[Sides]:
        """Return the sides of a goal, one for each sentence."""
        return [self.side(reject, accept) for reject, accept in goal]

    @property
    def further(self) -> tuple[str, ...]:
        """The specs of models that the options name."""
        sides = self.side(self.reject or ("rejecting",), self.accept or ("accepting",))
        named = (*self.reject, *self.accept, *(floor.model for floor in sides.floors))
        named += (self.reference,) if self.reference else ()
        named += () if self.steering is None else self.steering.models
        return tuple(dict.fromkeys([*named, *(spec for pair in self.pairs for spec in pair)]))

    def check_certificates(self, starts: Mapping[Goal, Sequence[str]]) -> None:
        """Check that there are certificates, if they are asked for; loads the models.

        Raises
        ------
        InputError
            As `contstim.synthesis.ngrams.certificate.check_bounded`.
        """
        if not self.certificate:
            return
        from contstim.synthesis.ngrams.certificate import check_bounded  # of no use to networks

        loaded = dict[str, SentenceModel]()
        for goal, sentences in starts.items():
            specs = self.sides_of(goal)[-1].models
            for spec in specs:
                if spec not in loaded:
                    loaded[spec] = model_on_processor(spec)
            check_bounded([loaded[spec] for spec in specs], sentences)

    def check_words(
        self, specs: Iterable[str], sentences: Sequence[str], language: Language = ENGLISH
    ) -> None:
        """Check the words before anything is scored, listed ones and the language's; loads models.

        Raises
        ------
        InputError
            If a model cuts sentences into other words than their language does.
        InfeasibleError
            If a model knows none of a position's words, with the punctuation of any sentence there.
        """
        parsed = [Sentence.parse(sentence, language) for sentence in sentences]
        needed = self.words_at or not language.plain
        for model in map(model_on_processor, specs if needed else ()):
            model.check_language(language, sentences)
            for position, words in ((int(p), listed) for p, listed in self.words_at.items()):
                long = [sentence for sentence in parsed if position < len(sentence.words)]
                marks = {(sentence.before[position], sentence.after[position]) for sentence in long}
                surfaces = [before + word + after for before, after in marks for word in words]
                if surfaces and not model.knows(surfaces).any():
                    raise InfeasibleError(
                        f"none of the {len(words)} words listed for position {position} is known "
                        f"to {model.name}; list words it knows"
                    )
