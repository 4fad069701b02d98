"""How sentences are synthesized: the table ``[synthesis]`` of study plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from contstim.errors import InfeasibleError, InputError
from contstim.models.base import check_sentence_language
from contstim.pipeline.stages import StageOptions, StudyPlan
from contstim.pipeline.work import model_on_processor
from contstim.settings import PositiveInt, TupleFromList, option, settings, validate_choice
from contstim.synthesis import STRATEGIES, parse_strategy, require_edit_support
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import MinScore, ModelContrast, require_distinct_models
from contstim.synthesis.strategy import Strategy
from contstim.text import Sentence
from contstim.text.diversity import DEFAULT_WORD_SHARE
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

#: How natural sentences are distributed over the model pairs.
STARTS = ("partitioned", "shared", "all")

#: Rejecting and accepting models, by spec: one such contrast, or the two of a pair.
Goal = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@settings
class SynthesisOptions(StageOptions):
    """``[synthesis]``: how sentences are synthesized.

    Attributes
    ----------
    strategy
        One of `STRATEGIES`, with its options as a URL query: ``edit?candidates=8``.
    pairs
        Pairs of models, of the study or not; by default every two models of the study. Each
        natural sentence gives a triplet.
    reject, accept
        In place of pairs, models that must reject and models that must accept each sentence.
    margin
        Maximum decrease of the score of an accepting model, nats.
    min_scores
        Lower bounds on scores, as `MinScore.parse` reads them.
    readable
        Minimum reading score (`MinScore.readable`).
    edits
        Limits on the edits of the natural sentence, as `Edits.parse` reads them.
    max_word_share
        Maximum share of a pair's synthetic sentences that may contain the same word; 1: any.
    starts
        ``partitioned``: the shuffled sentences are distributed over the model pairs, so that each
        is used for one pair, as in Golan et al. (2023). ``shared``: every pair may use every
        sentence, in a random order of its own. ``all``: every pair uses every sentence, in the
        order given.
    per_pair
        Maximum number of natural sentences per pair; by default all.
    per_sentence
        Maximum number of different triplets per natural sentence.
    minimum_drop
        Minimum decrease of a rejecting model's log-probability, nats, for a triplet to be kept.
    """

    strategy: str = option(
        "edit",
        "edit: replace words of the natural sentence; beam: whole sentences of lowest probability "
        "under the rejecting model; sample: sentences that read as English, sampled from a "
        "language model (default: edit)",
        "NAME",
    )
    pairs: TupleFromList[TupleFromList[str]] = ()
    reject: TupleFromList[str] = option((), "model that must reject the sentence", "SPEC")
    accept: TupleFromList[str] = option((), "model that must accept the sentence", "SPEC")
    margin: Annotated[float, Field(ge=0, le=1e6)] = option(
        0.0, "maximum decrease of the score of an accepting model", "NATS"
    )
    min_scores: TupleFromList[str] = option(
        (),
        "lower bound on a model's score, nats, such as contstim:gpt>=natural-5",
        "BOUND",
        "min-score",
    )
    readable: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    edits: str = option(
        "", "limits on what may change, such as max=3,fixed=0+1,same-class (edit only)", "RULE"
    )
    max_word_share: Annotated[float, Field(ge=1e-6, le=1)] = option(
        DEFAULT_WORD_SHARE,
        "maximum share of the synthetic sentences that may contain the same word "
        f"(default: {DEFAULT_WORD_SHARE:g})",
        "SHARE",
    )
    starts: Annotated[str, validate_choice(STARTS)] = "partitioned"
    per_pair: PositiveInt | None = None
    per_sentence: Annotated[int, Field(ge=1, le=1000)] = 1
    minimum_drop: Annotated[float, Field(ge=0, le=1e6)] = 0.0

    def __post_init__(self) -> None:
        require_edit_support(self.parsed_strategy, self.parsed_edits)
        directed = [*self.reject, *self.accept]
        if directed and self.pairs:
            raise InputError("give either pairs or reject and accept, not both")
        if directed and not self.reject:
            raise InputError("accept needs a model that rejects; give reject, too")
        if directed and not (self.accept or self.bounds):
            raise InputError("reject needs a model that accepts; give accept, or min_scores")
        if directed and (self.per_sentence != 1 or self.minimum_drop != 0):
            raise InputError(
                "per_sentence and minimum_drop are for triplets of pairs, and reject and accept "
                "give single sentences; leave them out"
            )
        self.contrast(self.reject or ("rejecting",), self.accept or ("accepting",))
        once = set[frozenset[str]]()
        for pair in self.pairs:
            if len(pair) != 2:
                raise InputError(f"the pair {list(pair)} has {len(pair)} models; give two")
            require_distinct_models("a pair needs two", pair)
            if frozenset(pair) in once:
                raise InputError(
                    f"the pair {pair[0]!r} and {pair[1]!r} is given twice; give each pair once, "
                    "either way round"
                )
            once.add(frozenset(pair))

    @property
    def parsed_strategy(self) -> Strategy:
        """The strategy itself."""
        return parse_strategy(self.strategy)

    @property
    def parsed_edits(self) -> Edits:
        """The limits on edits."""
        return Edits.parse(self.edits)

    @property
    def bounds(self) -> tuple[MinScore, ...]:
        """The lower bounds on scores."""
        readable = () if self.readable is None else (MinScore.readable(self.readable),)
        return (*map(MinScore.parse, self.min_scores), *readable)

    @property
    def is_pooled(self) -> bool:
        """Whether the strategy samples one pool for all natural sentences."""
        return self.parsed_strategy.is_pooled

    @property
    def makes_triplets(self) -> bool:
        """Whether rows are triplets of model pairs."""
        return not self.reject

    @property
    def package(self) -> str:
        """The package that provides the strategy, with its version; empty for contstim's own."""
        return STRATEGIES.package(self.strategy.partition("?")[0])

    def goals(self, models: Sequence[str]) -> list[Goal]:
        """Return the contrasts of the compared models, by their specs.

        For a pair, the sentence that model 1 accepts comes first.
        """
        if self.reject:
            return [((self.reject, self.accept),)]
        pairs = self.pairs or itertools.combinations(models, 2)
        return [(((two,), (one,)), ((one,), (two,))) for one, two in pairs]

    def contrast(self, reject: Sequence[str], accept: Sequence[str]) -> ModelContrast:
        """Return the problem for some models, by their specs as given."""
        return ModelContrast(
            tuple(reject), tuple(accept), self.margin, self.bounds, self.parsed_edits
        )

    def contrasts(self, goal: Goal) -> list[ModelContrast]:
        """Return the contrasts of a goal, one for each sentence."""
        return [self.contrast(reject, accept) for reject, accept in goal]

    @property
    def further(self) -> tuple[str, ...]:
        """The specs of models that the options name."""
        named = [*self.reject, *self.accept, *(bound.model for bound in self.bounds)]
        named += [*self.parsed_strategy.models, *itertools.chain(*self.pairs)]
        return tuple(dict.fromkeys(named))

    def check(self, plan: StudyPlan) -> None:
        """Refuse a plan whose models do not suffice."""
        self.goals(plan.models)

    def check_words(
        self, specs: Iterable[str], sentences: Sequence[str], language: Language = ENGLISH
    ) -> None:
        """Check the words before anything is scored; loads models.

        Raises
        ------
        InputError
            If a model splits sentences into other words than their language does.
        InfeasibleError
            If a model knows none of the words listed for a position.
        """
        listed = self.parsed_edits.words
        parsed = [Sentence.parse(sentence, language) for sentence in sentences]
        for model in map(
            model_on_processor, specs if listed or not language.is_space_delimited else ()
        ):
            check_sentence_language(model, language, sentences)
            for position, words in listed:
                long = [sentence for sentence in parsed if position < len(sentence.words)]
                marks = {(sentence.before[position], sentence.after[position]) for sentence in long}
                surfaces = [before + word + after for before, after in marks for word in words]
                if surfaces and not model.in_vocabulary(surfaces).any():
                    raise InfeasibleError(
                        f"none of the {len(words)} words listed for position {position} is known "
                        f"to {model.name}; list words it knows"
                    )
