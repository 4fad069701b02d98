"""Select the most controversial natural pairs, or triplets, with a proven bound.

natural: from log-probabilities of many natural sentences, the pairs that set every two models most
against each other (Golan et al. 2023, section 6.2). triplets: of the triplets of each model pair,
equally many from each stratum, a range of log-probabilities, of both models (section 4.8). set:
pairs each of which sets many models of a set against each other, so that every two are separated
often, or told apart best by people's answers (log-bf); natural pairs, those of triplets, or both.
The objective, its bound and what was left out are reported on standard error.

Examples:
  contstim select natural scores.csv --per-pair 10 --out pairs.csv
  contstim select natural scores.csv --constraint balance:words:0.5 --out pairs.csv
  contstim select set scores.csv --n 360 --out pairs.csv
  contstim select set scores.csv --criterion log-bf --constraint balance:words:0.5 --out pairs.csv
  contstim select triplets triplets.csv --per-pair 10 --objective worst-rank --out chosen.csv
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pandas as pd

from contstim.cli.common import add_decisions, add_people, approved, people_of, tell, write_rows
from contstim.cli.parsing import CommandParser, given
from contstim.errors import InputError
from contstim.text import read_words
from contstim.text.diversity import diversity_line
from contstim.text.languages import ENGLISH

if TYPE_CHECKING:
    from contstim.selection.constraints import SelectionConstraint


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    natural = kinds.add_parser("natural", help="pairs of natural sentences")
    of_set = kinds.add_parser("set", help="pairs that separate every two of many models")
    triplets = kinds.add_parser("triplets", help="triplets of a natural and two synthetic ones")
    for sub in (natural, of_set):
        _add_scores(sub)
    _add_natural(natural)
    _add_set(of_set)
    _add_triplets(triplets)
    for sub in (natural, of_set):
        _add_constraints(sub)
    for sub in (natural, triplets):
        sub.add("--tokens", "add how many tokens each sentence has under either model, a spec")
    for sub in (natural, of_set, triplets):
        sub.add_out()


def _add_scores(parser: CommandParser) -> None:
    parser.add(
        "table SCORES",
        "log-probabilities: CSV with a column per model, or as `contstim score` writes it, "
        ".parquet, or .npz with an array per model",
    )
    what = "leave out sentences in which a word occurs twice, repeatable ones excepted"
    parser.add("--distinct", what)
    parser.add(
        "--repeatable FILE",
        "words that may occur twice all the same (default: English determiners and prepositions)",
    )


def _add_natural(parser: CommandParser) -> None:
    from contstim.selection.natural import NaturalSelection

    parser.add_fields(NaturalSelection)


def _add_set(parser: CommandParser) -> None:
    from contstim.selection.sets import SetSelection

    parser.add_fields(SetSelection)
    add_people(parser)
    what = "as `contstim synthesize` writes it; the scores are of its sentences too"
    parser.add("--triplets CSV", what)
    parser.add(
        "--candidates",
        "with --triplets: pairs of natural sentences, those of a triplet, or both (default: both)",
        choices=("natural", "synthetic", "both"),
    )
    parser.add_seed()


def _add_constraints(parser: CommandParser) -> None:
    from contstim.selection.constraints import CONSTRAINTS

    forms = ", ".join(kind.usage() for _, kind in CONSTRAINTS.items())
    parser.add(
        "--constraint KIND:COLUMN:VALUE",
        f"what the selection must keep: {forms}; columns are sentence, words, characters, zipf "
        "(frequency), tokens (of SCORES as `contstim score` writes it; as many under every model) "
        "and those of --features",
        several=True,
        default=[],
    )
    parser.add("--features CSV", "columns for constraints: the first holds the sentence")


def _add_triplets(parser: CommandParser) -> None:
    from contstim.selection.triplets import TripletSelection

    parser.add("table TRIPLETS", "as `contstim synthesize` writes it")
    parser.add_fields(TripletSelection)
    parser.add("--reference SCORES", "log-probabilities of a corpus that define the strata")
    add_decisions(parser)


def run(args: argparse.Namespace) -> int:
    """Select and write."""
    chosen = {"natural": _natural, "set": _set, "triplets": _triplets}[args.kind](args)
    files = ("table", "reference", "repeatable", "features", "triplets")
    read = [getattr(args, name, None) for name in files]
    read += getattr(args, "decisions", None) or []
    attrs = chosen.attrs
    if getattr(args, "tokens", False):
        from contstim.selection.tokens import with_token_counts  # which loads the models

        chosen = with_token_counts(chosen)
    write_rows(chosen, args.out, read)
    if "synthetic_1" in chosen:
        written = [*chosen["synthetic_1"].astype(str), *chosen["synthetic_2"].astype(str)]
        tell(diversity_line(written, chosen["natural"].astype(str)))
    for note in _training_notes(chosen):
        tell(note)
    for name in ("ranked", "candidates", "strata"):
        if name in attrs:
            tell(f"{name}: {attrs[name]}")
    if "excluded" in attrs:
        reasons = [f"{n} ({reason})" for reason, n in attrs["excluded"].items() if n]
        tell(f"excluded: {', '.join(reasons) or 'none'}")
    for pair in attrs.get("pairs", ()):
        left_out = [
            f"{pair[name]} {name}" for name in ("not finite", "repeated natural") if pair[name]
        ]
        short = [
            f"{one['model']} {one['stratum'] + 1} ({one['selected']} of {one['wanted']})"
            for one in pair["unfilled"]
        ]
        if short or left_out:
            tell(
                f"{pair['model_1']} and {pair['model_2']}: {pair['selected']} of "
                f"{pair['considered']} selected; left out: {', '.join(left_out) or 'none'}; "
                f"strata not filled, from the lowest: {', '.join(short) or 'none'}",
            )
    if "separations" in attrs:
        least = min(attrs["separations"], key=lambda pair: pair["separated"])
        tell(
            f"separated least: {least['model_1']} and {least['model_2']}, by "
            f"{least['separated'] / len(chosen):.1%} of the pairs; a pair separates "
            f"{attrs['mean']:.2f} of {len(attrs['separations'])} model pairs on average",
        )
        if "log_bayes_factor" in chosen:
            least = min(attrs["separations"], key=lambda pair: pair["log_bayes_factor"])
            tell(
                f"hardest to tell apart: {least['model_1']} and {least['model_2']}, by "
                f"{least['log_bayes_factor'] / len(chosen):.4f} nats per answer; "
                f"{chosen['log_bayes_factor'].mean():.4f} on average over model pairs",
            )
    tell(
        f"{len(chosen)} rows, {attrs['status']}: objective {attrs['objective']:.10g}, bound "
        f"{attrs['bound']:.10g}, gap {attrs['gap']:.3g} ({attrs['solver']})",
    )
    return 0


def _training_notes(chosen: pd.DataFrame) -> list[str]:
    """Say of which models the natural sentences of a selection are training text."""
    from contstim.training.training_overlap import training_notes

    columns = ["natural"] if "natural" in chosen else ["sentence_1", "sentence_2"]
    models = chosen[[name for name in ("model_1", "model_2") if name in chosen]]
    sentences = [str(sentence) for sentence in pd.unique(chosen[columns].to_numpy().ravel())]
    return training_notes(models.to_numpy().ravel().astype(str).tolist(), sentences)


def _corpus(
    args: argparse.Namespace,
) -> tuple[pd.DataFrame, pd.Series | None, list[SelectionConstraint]]:
    """Return the scores of sentences, which of them may be chosen if not all, and constraints."""
    from contstim.selection import read_scores, repeats_no_word
    from contstim.selection.constraints import check_constraints, parse_constraints
    from contstim.selection.scores import read_features, read_token_counts

    check_constraints(args.constraint)
    scores = read_scores(args.table)
    features = read_features(args.features) if args.features else None
    eligible = None
    if args.distinct:
        words = read_words(args.repeatable) if args.repeatable else ENGLISH.repeatable
        labels = [str(label) for label in scores.index]
        eligible = repeats_no_word(labels, words).set_axis(scores.index)
    needed = any(":tokens" in text for text in args.constraint) and args.table != "-"
    tokens = read_token_counts(args.table) if needed else None
    return scores, eligible, parse_constraints(args.constraint, scores.index, features, tokens)


def _natural(args: argparse.Namespace) -> pd.DataFrame:
    from contstim.selection.natural import NaturalSelection, select_natural_pairs

    scores, eligible, constraints = _corpus(args)
    asked = given(args, NaturalSelection)
    return select_natural_pairs(scores, eligible=eligible, constraints=constraints, **asked)


def _set(args: argparse.Namespace) -> pd.DataFrame:
    from contstim.selection import read_triplets
    from contstim.selection.sets import SetSelection, select_set, triplet_pairs

    if args.candidates and not args.triplets:
        raise InputError(f"--candidates {args.candidates} has no effect without --triplets; add it")
    scores, eligible, constraints = _corpus(args)
    pairs = None
    if args.triplets:
        triplets = read_triplets(args.triplets)
        formed = pd.Series(args.candidates != "synthetic", index=scores.index)
        formed[scores.index.isin(triplets[["synthetic_1", "synthetic_2"]].to_numpy().ravel())] = (
            False
        )
        eligible = formed if eligible is None else eligible & formed
        pairs = None if args.candidates == "natural" else triplet_pairs(triplets)
    return select_set(
        scores,
        people=people_of(args),
        eligible=eligible,
        pairs=pairs,
        constraints=constraints,
        seed=args.seed,
        **given(args, SetSelection),
    )


def _triplets(args: argparse.Namespace) -> pd.DataFrame:
    from contstim.selection import read_scores, read_triplets
    from contstim.selection.triplets import TripletSelection, select_triplets

    return select_triplets(
        approved(args, read_triplets(args.table)),
        reference=read_scores(args.reference) if args.reference else None,
        **given(args, TripletSelection),
    )
