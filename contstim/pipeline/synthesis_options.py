"""Options of the synthesis of sentences: the table ``[synthesis]`` of study plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from contstim.errors import InfeasibleError, InputError
from contstim.models.base import check_sentence_language
from contstim.pipeline.model_records import load_model_on_cpu
from contstim.settings import PositiveInt, TupleFromList, settings, validate_choice
from contstim.synthesis import STRATEGIES, parse_strategy, require_edit_support
from contstim.synthesis.edits import Edits
from contstim.synthesis.problem import MinScore, ProblemDefinition, require_distinct_models
from contstim.synthesis.strategy import Strategy
from contstim.text import Sentence
from contstim.text.diversity import DEFAULT_WORD_SHARE
from contstim.text.language import Language
from contstim.text.languages import ENGLISH

#: Number of natural sentences per requested row, for strategies that sample a pool of sentences.
N_ALTERNATIVES = 3

#: Rules that allocate natural sentences to pairs of models.
ALLOCATIONS = ("partitioned", "shared", "all")


@settings
class SynthesisOptions:
    """Table ``[synthesis]`` of a study plan: models, constraints and strategy of the synthesis.

    Attributes
    ----------
    strategy
        Name of the search strategy, optionally with options after a question mark, for example
        ``edit?candidates=8``.
    pairs
        Pairs of models for which triplets are synthesized; by default all pairs of the compared
        models. A triplet is a natural sentence with two synthetic sentences, each of which is
        improbable under one model of the pair and remains probable under the other.
    reject, accept
        Models under which each synthetic sentence should be improbable, and models under which it
        should remain probable. If they are given, single sentences are synthesized instead of
        triplets.
    margin
        Number of nats by which the score of the synthetic sentence under a model of `accept` may
        be lower than the score of the natural sentence.
    min_scores
        Lower bounds on scores. For example, ``contstim:gpt>=natural-5`` requires that the score
        under ``contstim:gpt`` is at most 5 nats lower than for the natural sentence.
    readable
        Minimum of the reading score, which predicts whether a sentence reads as English, in nats
        (`MinScore.readable`). None: no minimum.
    edits
        Limits on the changes to the natural sentence, for example ``max=3,fixed=0``.
    max_word_share
        Maximum fraction of the synthetic sentences for a pair that may contain the same word; 1: no
        limit.
    allocation
        Rule that allocates natural sentences to model pairs. ``partitioned``: the sentences are
        shuffled and each is used for one pair (Golan et al. 2023). ``shared``: every pair uses all
        sentences, in a different random order. ``all``: every pair uses all sentences in the given
        order.
    per_pair
        Maximum number of natural sentences per pair; by default no limit. The strategy ``sample``
        finds synthetic sentences for three times as many natural sentences (`n_candidates`), and
        keeps those with the lowest loss.
    per_sentence
        Maximum number of different triplets per natural sentence.
    minimum_drop
        Minimum number of nats by which each synthetic sentence must be less probable than the
        natural sentence, under the model that should find it improbable. Other triplets are left
        out. The strategy ``sample`` requires at least 1 nat.
    """

    strategy: str = "edit"
    pairs: TupleFromList[TupleFromList[str]] = ()
    reject: TupleFromList[str] = ()
    accept: TupleFromList[str] = ()
    margin: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    min_scores: TupleFromList[str] = ()
    readable: Annotated[float, Field(ge=-1e6, le=1e6)] | None = None
    edits: str = ""
    max_word_share: Annotated[float, Field(ge=1e-6, le=1)] = DEFAULT_WORD_SHARE
    allocation: Annotated[str, validate_choice(ALLOCATIONS)] = "partitioned"
    per_pair: PositiveInt | None = None
    per_sentence: Annotated[int, Field(ge=1, le=1000)] = 1
    minimum_drop: Annotated[float, Field(ge=0, le=1e6)] = 0.0

    def __post_init__(self) -> None:
        require_edit_support(self.parsed_strategy, self.parsed_edits)
        # Either models to reject and to accept the sentences are named, or triplets are made for
        # pairs of models, but not both.
        directed = [*self.reject, *self.accept]
        if directed and self.pairs:
            raise InputError("pairs excludes reject and accept; leave out one of them")
        if directed and not self.reject:
            raise InputError("accept needs a rejecting model; add reject")
        if directed and not (self.accept or self.bounds):
            raise InputError("reject needs an accepting model or a bound; add accept or min_scores")
        if directed and (self.per_sentence != 1 or self.minimum_drop != 0):
            raise InputError(
                "per_sentence and minimum_drop apply to triplets, but reject and accept make "
                "single sentences; leave out per_sentence and minimum_drop"
            )
        # Define a problem, if necessary with placeholder models, only to refuse invalid
        # combinations of models, bounds and edits early.
        self._define(self.reject or ("rejecting",), self.accept or ("accepting",))
        known_pairs = set[frozenset[str]]()
        for pair in self.pairs:
            if len(pair) != 2:
                raise InputError(f"the pair {list(pair)} has {len(pair)} models; give two")
            require_distinct_models("a pair needs two", pair)
            if frozenset(pair) in known_pairs:
                raise InputError(
                    f"the pair of {pair[0]!r} and {pair[1]!r} is listed twice; list each pair "
                    "once, in either order"
                )
            known_pairs.add(frozenset(pair))

    @property
    def parsed_strategy(self) -> Strategy:
        """Search strategy as an object."""
        return parse_strategy(self.strategy)

    @property
    def parsed_edits(self) -> Edits:
        """Limits on edits as an object."""
        return Edits.parse(self.edits)

    @property
    def bounds(self) -> tuple[MinScore, ...]:
        """Lower bounds on scores, including the minimum reading score."""
        readable = () if self.readable is None else (MinScore.readable(self.readable),)
        return (*map(MinScore.parse, self.min_scores), *readable)

    @property
    def n_candidates(self) -> int | None:
        """Number of natural sentences per pair from which `per_pair` are chosen; None: all."""
        return self.per_pair and self.per_pair * (N_ALTERNATIVES if self.is_pooled else 1)

    @property
    def is_pooled(self) -> bool:
        """Whether the strategy samples one pool of sentences for all natural sentences."""
        return self.parsed_strategy.is_pooled

    @property
    def makes_triplets(self) -> bool:
        """Whether triplets are synthesized rather than single sentences."""
        return not self.reject

    @property
    def package(self) -> str:
        """Package that provides the strategy, with its version; empty for contstim itself."""
        return STRATEGIES.package(self.strategy.partition("?")[0])

    def list_problems(self, models: Sequence[str]) -> list[tuple[ProblemDefinition, ...]]:
        """Return the synthesis problems to solve for natural sentences.

        A problem describes one synthetic sentence: the models that should reject it (find it
        improbable), the models that should accept it (find it probable), and constraints. A triplet
        is a natural sentence with two synthetic ones; two models each reject one of them and accept
        the other.

        Parameters
        ----------
        models
            Specification strings of the compared models.

        Returns
        -------
        list of tuple of ProblemDefinition
            If the option `reject` is set, a single tuple with one problem, for the models in the
            options `reject` and `accept`. Otherwise, triplets are made: one tuple per pair of
            models, with the problems of the two synthetic sentences.
        """
        if self.reject:  # The models are named, so there is a single problem.
            return [(self._define(self.reject, self.accept),)]
        problems_by_pair: list[tuple[ProblemDefinition, ...]] = []
        for model_1, model_2 in self.pairs or itertools.combinations(models, 2):
            # Model 2 rejects synthetic sentence 1, and model 1 accepts it.
            problem_1 = self._define(reject=(model_2,), accept=(model_1,))
            problem_2 = self._define(reject=(model_1,), accept=(model_2,))
            problems_by_pair.append((problem_1, problem_2))
        return problems_by_pair

    def _define(self, reject: tuple[str, ...], accept: tuple[str, ...]) -> ProblemDefinition:
        """Return a synthesis problem for given models, with the constraints of these options."""
        return ProblemDefinition(reject, accept, self.margin, self.bounds, self.parsed_edits)

    @property
    def extra_models(self) -> tuple[str, ...]:
        """Specification strings of all models that the options name."""
        specs = [*self.reject, *self.accept, *(bound.model for bound in self.bounds)]
        specs += [*self.parsed_strategy.models, *itertools.chain(*self.pairs)]
        return tuple(dict.fromkeys(specs))

    def check_words(
        self, specs: Iterable[str], sentences: Sequence[str], language: Language = ENGLISH
    ) -> None:
        """Check that models can process the language and the words that `edits` lists.

        Models are loaded only if the language has no spaces between words or `edits` lists words.

        Parameters
        ----------
        specs
            Specification strings of the models.
        sentences
            Natural sentences.
        language
            Language of the sentences.

        Raises
        ------
        InputError
            If a model splits sentences into other words than the language.
        InfeasibleError
            If a model knows none of the words listed for a position.
        """
        listed_words = self.parsed_edits.words
        if language.is_space_delimited and not listed_words:
            return
        # Check that each model splits sentences into the same words as the language does, and that
        # it knows at least one of the words listed for each position.
        parsed = [Sentence.parse(sentence, language) for sentence in sentences]
        for model in map(load_model_on_cpu, specs):
            check_sentence_language(model, language, sentences)
            for position, words in listed_words:
                # Combine the words with the punctuation marks that occur around this position.
                marks = {
                    (sentence.before[position], sentence.after[position])
                    for sentence in parsed
                    if position < len(sentence.words)
                }
                surfaces = [before + word + after for before, after in marks for word in words]
                if surfaces and not model.in_vocabulary(surfaces).any():
                    raise InfeasibleError(
                        f"{model.name} knows none of the {len(words)} words listed for position "
                        f"{position}; list words that it knows"
                    )
