"""Select the most controversial pairs, triplets or sets of pairs, with a proven bound.

Standard error reports the objective of the selection, its bound, and the excluded candidates.

examples:
  contstim select triplets triplets.csv --per-pair 10 --out chosen.csv
  contstim select natural scores.csv --per-pair 10 --out pairs.csv
  contstim select set scores.csv --n 360 --out pairs.csv
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from contstim import selection
from contstim.cli.application import create_application
from contstim.cli.common import print_message, write_table
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    File,
    Name,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Text,
    float_parameter,
    integer_parameter,
)
from contstim.errors import InputError, format_count
from contstim.text import read_words
from contstim.text.diversity import format_diversity
from contstim.text.languages import ENGLISH

if TYPE_CHECKING:
    import pandas as pd

    from contstim.selection.constraint_rows import SelectionConstraint

NATURAL = """Select pairs of natural sentences that two models order most differently.

For every two models, model 1 accepts sentence 1 of a selected pair and rejects sentence 2, and
model 2 the reverse (Golan et al. 2023, section 6.2). Each sentence is used at most once.

examples:
  contstim select natural scores.csv --per-pair 10 --out pairs.csv
  contstim select natural scores.csv --constraint balance:words:0.5 --out pairs.csv
"""

TRIPLETS = """Select the same number of triplets from each stratum, for every two models.

A stratum is a range of a model's log-probabilities of the natural sentences (Golan et al. 2023,
section 4.8).

examples:
  contstim select triplets triplets.csv --per-pair 10 --strata 5 --out chosen.csv
"""

SET = """Select pairs that each separate many models, to compare all models in few trials.

examples:
  contstim select set scores.csv --n 360 --out pairs.csv
  contstim select set scores.csv --criterion log-bf --constraint balance:words:0.5 --out pairs.csv
"""

SELECTION = Group.create_ordered("what to select")
CANDIDATES = Group.create_ordered("candidates and constraints")
OUTPUT = Group.create_ordered("running and output")

PerPair = Annotated[int, integer_parameter(1, 100_000), Parameter(group=SELECTION)]
Criterion = Annotated[Name, Parameter(group=SELECTION)]
Rank = Annotated[float, float_parameter(0, 1, "RANK"), Parameter(group=SELECTION)]
Table = Annotated[File | None, Parameter(group=CANDIDATES)]
Out = Annotated[OutputFile, Parameter(group=OUTPUT)]
TokenCounts = Annotated[bool, Parameter(group=OUTPUT)]


@Parameter(name="*", group=CANDIDATES)
@dataclass(frozen=True)
class SentenceOptions:
    """Candidate sentences and constraints on the selection.

    Attributes
    ----------
    distinct
        exclude sentences in which a word occurs twice
    repeatable
        file of the words that --distinct permits to occur twice, one word per line (default:
        English determiners and prepositions)
    constraint
        constraint on a property of the selected sentences, KIND:COLUMN:VALUE, for example
        balance:words:0.5 (docs/selection.md lists the kinds). COLUMN is the property: sentence,
        words, characters, zipf, tokens or a column of --features. In `select set`, balance
        compares the sentences that a model prefers with the others
    features
        table of sentence properties for constraints; the first column contains the sentence
    """

    distinct: bool = False
    repeatable: File | None = None
    constraint: Annotated[tuple[Text, ...], Parameter(metavar="KIND:COLUMN:VALUE")] = ()
    features: File | None = None

    def read_candidates(
        self, path: str
    ) -> tuple[pd.DataFrame, pd.Series | None, list[SelectionConstraint]]:
        """Read the candidates and the constraints.

        Parameters
        ----------
        path
            Path of the table of scores.

        Returns
        -------
        log_probs : (S, M) DataFrame
            Log-probabilities in nats.
        eligible : (S,) Series or None
            Whether each sentence may be selected; None for all.
        constraints : list
            Constraints on the selection.
        """
        from contstim.selection import constraint_text, scores

        if self.repeatable and not self.distinct:
            raise InputError("--repeatable has no effect without --distinct; add it")
        constraint_text.check_constraints(self.constraint)
        log_probs = scores.read_scores(path)
        features = scores.read_features(self.features) if self.features else None
        # With --distinct, only sentences without a repeated word may be selected.
        eligible = None
        if self.distinct:
            words = read_words(self.repeatable) if self.repeatable else ENGLISH.repeatable
            sentences = [str(label) for label in log_probs.index]
            eligible = selection.has_distinct_words(sentences, words).set_axis(log_probs.index)
        # Only constraints on numbers of tokens need them. They are columns of the file of scores.
        needs_tokens = any(":tokens" in text for text in self.constraint) and path != "-"
        n_tokens = scores.read_token_counts(path) if needs_tokens else None
        constraints = constraint_text.parse_constraints(
            self.constraint, log_probs.index, features, n_tokens
        )
        return log_probs, eligible, constraints


ALL_SENTENCES = SentenceOptions()

app = create_application("select", __doc__)


def write_selection(
    selected: pd.DataFrame, out: str, inputs: list[str | None], tokens: bool = False
) -> None:
    """Write a table of selected stimuli, and report the selection on standard error.

    Parameters
    ----------
    selected
        Selected pairs or triplets, one per row. Its `attrs` describe the selection: objective,
        bound, and numbers of candidates and excluded rows.
    out
        Path of the output table.
    inputs
        Inputs of the command, which must not be overwritten.
    tokens
        Whether to add the number of tokens of each sentence under each model.
    """
    attrs: dict[Any, Any] = selected.attrs
    if tokens:
        from contstim.selection.tokens import add_token_counts

        selected = add_token_counts(selected)
    write_table(selected, out, inputs)
    if "synthetic_1" in selected:
        synthetic = [*selected["synthetic_1"].astype(str), *selected["synthetic_2"].astype(str)]
        print_message(format_diversity(synthetic, selected["natural"].astype(str)))
    # Report how the selection was made. Which entries `attrs` has depends on the kind of selection.
    for name in ("ranked", "candidates", "strata"):
        if name in attrs:
            print_message(f"{name}: {attrs[name]}")
    if "excluded" in attrs:
        reasons = [f"{n} ({reason})" for reason, n in attrs["excluded"].items() if n]
        print_message(f"excluded: {', '.join(reasons) or 'none'}")
    for pair in attrs.get("pairs", ()):
        _report_model_pair(pair)
    # For sets of pairs: report which two models the pairs separate least.
    if "separations" in attrs:
        _report_separations(selected, attrs)
    # The gap between objective and bound limits how far the selection is from the optimum.
    print_message(
        f"{format_count(len(selected), 'row')}, {attrs['status']}: objective "
        f"{attrs['objective']:.10g}, bound {attrs['bound']:.10g}, gap {attrs['gap']:.3g} "
        f"({attrs['solver']})"
    )


def _report_model_pair(pair: Mapping[str, Any]) -> None:
    """Print how many triplets of a pair of models were excluded, and which strata lack triplets.

    A triplet is a natural sentence with two synthetic ones. A stratum is a quantile range of a
    model's log-probabilities of natural sentences. The same number of triplets is selected from
    each stratum if possible. `pair` is an element of ``attrs["pairs"]`` of the table that
    `select_triplets` returns.
    """
    excluded = [f"{pair[key]} {key}" for key in ("not finite", "repeated natural") if pair[key]]
    # A stratum is a range of log-probabilities from which the same number of triplets should be
    # selected. Strata are counted from 1 in the message.
    unfilled = [
        f"{stratum['model']} {stratum['stratum'] + 1} "
        f"({stratum['selected']} of {stratum['wanted']})"
        for stratum in pair["unfilled"]
    ]
    if unfilled or excluded:
        print_message(
            f"{pair['model_1']} and {pair['model_2']}: {pair['selected']} of "
            f"{pair['considered']} selected; excluded: {', '.join(excluded) or 'none'}; "
            f"unfilled strata, from the lowest: {', '.join(unfilled) or 'none'}"
        )


def _report_separations(selected: pd.DataFrame, attrs: Mapping[Any, Any]) -> None:
    """Report which two models a selected set of pairs separates least.

    A sentence pair separates two models if they prefer different sentences of the pair.

    Parameters
    ----------
    selected
        Selected sentence pairs, one per row.
    attrs
        Attributes of the table that `select_set` returns, which describe the selection.
    """
    separations = attrs["separations"]
    # Each record contains two models and the number of sentence pairs that separate them (on which
    # they prefer different sentences). Find the two models that the fewest pairs separate.
    fewest = min(separations, key=itemgetter("separated"))
    print_message(
        f"separated least: {fewest['model_1']} and {fewest['model_2']}, by "
        f"{fewest['separated'] / len(selected):.1%} of the pairs; a pair separates "
        f"{attrs['mean']:.2f} of {len(separations)} model pairs on average"
    )
    if "log_bayes_factor" in selected:
        # The expected log Bayes factor measures how strongly answers distinguish two models. The
        # records contain its sum over the selected sentence pairs.
        hardest = min(separations, key=itemgetter("log_bayes_factor"))
        print_message(
            f"hardest to distinguish: {hardest['model_1']} and {hardest['model_2']}, by "
            f"{hardest['log_bayes_factor'] / len(selected):.4f} nats per answer; "
            f"{selected['log_bayes_factor'].mean():.4f} on average over model pairs"
        )


def select_natural(
    scores: File,
    /,
    *,
    per_pair: PerPair = 10,
    criterion: Criterion = "rank",
    accept_from: Rank = 0.5,
    sentences: SentenceOptions = ALL_SENTENCES,
    tokens: TokenCounts = False,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Select pairs of natural sentences about which two models disagree.

    Parameters
    ----------
    scores
        log-probabilities: output of `contstim score`, or a table with one column per model
        (CSV, Parquet) or one array per model (.npz)
    per_pair
        number of pairs per pair of models
    criterion
        criterion to minimise: rank (fractional ranks of the sentences under the models that reject
        them), or a criterion of an installed package
    accept_from
        minimum fractional rank at which a model accepts a sentence
    tokens
        add the number of tokens of each sentence under each model
    out
        output table [standard output]
    """
    table, eligible, constraints = sentences.read_candidates(scores)
    # `table` contains log-probabilities, and `eligible` states which sentences may be selected.
    selected = selection.select_natural_pairs(
        table,
        per_pair,
        criterion=criterion,
        accept_from=accept_from,
        eligible=eligible,
        constraints=constraints,
    )
    write_selection(selected, out, [scores, sentences.repeatable, sentences.features], tokens)


def select_from_triplets(
    triplets: File,
    /,
    *,
    per_pair: PerPair = 10,
    objective: Criterion = "controversiality",
    strata: Annotated[PositiveInteger | None, Parameter(group=SELECTION)] = None,
    max_word_share: Annotated[
        float, float_parameter(1e-6, 1, "SHARE"), Parameter(group=SELECTION)
    ] = 1.0,
    distinct_items: Annotated[bool, Parameter(group=SELECTION)] = False,
    reference: Table = None,
    tokens: TokenCounts = False,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Select triplets of a natural sentence and two synthetic ones.

    Parameters
    ----------
    triplets
        triplets, output of `contstim synthesize`
    per_pair
        number of triplets per pair of models
    objective
        objective: controversiality (maximised), worst-rank (minimised), or an objective of an
        installed package
    strata
        number of strata per model [10, or fewer that divide --per-pair]
    max_word_share
        maximum share of the selected synthetic sentences of a pair of models that may contain the
        same content word
    distinct_items
        exclude triplets that share a sentence with another selected triplet
    reference
        log-probabilities of a corpus that define the strata [natural sentences of the triplets]
    tokens
        add the number of tokens of each sentence under each model
    out
        output table [standard output]
    """
    selected = selection.select_triplets(
        selection.read_triplets(triplets),
        per_pair,
        objective,
        # Strata are ranges of log-probability in the reference corpus; the same number of triplets
        # is selected from each.
        strata=strata,
        reference=selection.read_scores(reference) if reference else None,
        max_word_share=max_word_share,
        distinct_items=distinct_items,
    )
    write_selection(selected, out, [triplets, reference], tokens)


def select_pair_set(
    scores: File,
    /,
    *,
    n: Annotated[PositiveInteger, Parameter(group=SELECTION)] = 360,
    criterion: Criterion = "separation",
    rank_margin: Annotated[
        float, float_parameter(0, metavar="RANK", below=1), Parameter(group=SELECTION)
    ] = 0,
    max_uses: Annotated[PositiveInteger, Parameter(group=SELECTION)] = 1,
    triplets: Table = None,
    candidates: Annotated[
        Literal["natural", "synthetic", "both"] | None, Parameter(group=CANDIDATES, metavar="WHICH")
    ] = None,
    sentences: SentenceOptions = ALL_SENTENCES,
    time_limit: Annotated[
        float, float_parameter(metavar="SECONDS", above=0), Parameter(group=OUTPUT)
    ] = 60.0,
    seed: Annotated[RandomSeed, Parameter(group=OUTPUT)] = 0,
    out: Out = STANDARD_OUTPUT,
) -> None:
    """Select a set of sentence pairs that together separate every two models.

    Parameters
    ----------
    scores
        log-probabilities: output of `contstim score`, or a table with one column per model
        (CSV, Parquet) or one array per model (.npz)
    n
        number of pairs
    criterion
        criterion to maximise for the two models that are separated least: separation (number of
        pairs that separate them) or log-bf (expected log Bayes factor of people's answers)
    rank_margin
        minimum difference between the fractional ranks of the two sentences
    max_uses
        maximum number of pairs that contain the same sentence
    triplets
        triplets, output of `contstim synthesize`, as further candidates
    candidates
        candidates with --triplets: pairs of natural sentences (natural), synthetic sentences of a
        triplet (synthetic), or both [both]
    time_limit
        time limit of the integer programme, seconds
    seed
        random seed
    out
        output table [standard output]
    """
    if candidates and not triplets:
        raise InputError(f"--candidates {candidates} has no effect without --triplets; add it")
    table, eligible, constraints = sentences.read_candidates(scores)
    # Candidates are all pairs of eligible sentences and, in addition, given synthetic pairs.
    synthetic_pairs = None
    if triplets:
        rows = selection.read_triplets(triplets)
        # Sentences that may be combined to pairs: natural ones, or none if all pairs are synthetic.
        synthetic = rows[["synthetic_1", "synthetic_2"]].to_numpy().ravel()
        is_combinable = ~table.index.to_series().isin(synthetic)
        if candidates == "synthetic":
            is_combinable[:] = False
        eligible = is_combinable if eligible is None else eligible & is_combinable
        # Synthetic sentences are candidates only as the ready-made pairs of the triplets.
        if candidates != "natural":
            synthetic_pairs = selection.triplet_pairs(rows)
    selected = selection.select_set(
        table,
        n,
        criterion=criterion,
        rank_margin=rank_margin,
        eligible=eligible,
        pairs=synthetic_pairs,
        constraints=constraints,
        max_occurrences=max_uses,
        time_limit=time_limit,
        seed=seed,
    )
    write_selection(selected, out, [scores, triplets, sentences.repeatable, sentences.features])


app.command(create_application("natural", NATURAL, select_natural))
app.command(create_application("triplets", TRIPLETS, select_from_triplets))
app.command(create_application("set", SET, select_pair_set))
