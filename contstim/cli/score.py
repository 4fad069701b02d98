"""Score sentences under one or several models.

Writes the table `scores` as CSV: sentence, model, log_prob (in nats, which are units of natural
logarithms, unless unit says otherwise; higher is better), n_tokens, n_words, stderr, unit, and
perplexity, exp(-log_prob / n_tokens), where log_prob is a log-probability (for a masked model the
pseudo-perplexity). With --by word the table has the surprisal of each word. What each model gives a
probability, with or without full stop and end, is its event; it is stated on standard error.

Example:
  contstim score --model contstim:trigram --model contstim:lstm sentences.txt --out scores.csv
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TypeVar

from contstim.cli.common import tell, tell_model, write_output
from contstim.cli.parsing import CommandParser
from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import load_models
from contstim.models.training_overlap import training_notes
from contstim.tables import SCORES, SPEC, UNIT
from contstim.text import read_sentences

_CHUNK = 2048

_Result = TypeVar("_Result")


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    what = (
        "sentences, one a line, or a CSV with a column 'sentence' or with pairs, sentence_1 and "
        "sentence_2; - reads standard input"
    )
    parser.add("file", what)
    parser.add(
        "--model [NAME=]SPEC",
        "a model, which tables call NAME if it has one",
        required=True,
        several=True,
    )
    what = "one row per sentence (default) or a word"
    parser.add("--by", what, choices=("sentence", "word"), default="sentence")
    parser.add_out()


def run(args: argparse.Namespace) -> int:
    """Score and write."""
    sentences = read_sentences(args.file, pairs=True)
    models = load_models(args.model)
    for model in models:
        tell_model(model)
    for note in training_notes([model.spec for model in models], sentences):
        tell(note)
    write = _write_words if args.by == "word" else _write_sentences
    with write_output(args.out, [args.file]) as out:
        write(out, sentences, models)
    return 0


def _chunks(sentences: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield chunks of sentences, each with the number of its first sentence, from 1."""
    for start in range(0, len(sentences), _CHUNK):
        yield start + 1, list(sentences[start : start + _CHUNK])


def _write_sentences(out: IO[str], sentences: Sequence[str], models: list[SentenceModel]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    # Where a model is called otherwise, the table says what it is.
    has_specs = any(model.name != model.spec for model in models)
    writer.writerow((*SCORES, UNIT, "perplexity", *[SPEC] * has_specs))
    # In another batch a score may have other last digits, and a sentence has one score.
    repeated = {sentence for sentence, n in Counter(sentences).items() if n > 1}
    figures_before: list[dict[str, tuple[float, ...]]] = [{} for _ in models]
    for first, chunk in _chunks(sentences):
        for model, before in zip(models, figures_before, strict=True):
            new = list(dict.fromkeys(sentence for sentence in chunk if sentence not in before))
            figures = dict(before)
            if new:
                totals = _numbered(model.totals, new, first, chunk)
                columns = (totals.score, totals.n_tokens, totals.n_words, totals.stderr)
                rows = zip(*(column.tolist() for column in columns), strict=True)
                figures.update(zip(new, rows, strict=True))
                before.update((s, figures[s]) for s in repeated.intersection(new))
            unit, spec = model.kind.unit, [model.spec] * has_specs
            plain = model.event.reduction == "sum" and unit == "nats"
            perplexities = (
                _perplexity(*figures[s][:2]) if plain and figures[s][1] else "" for s in chunk
            )
            writer.writerows(
                (s, model.name, *figures[s], unit, perplexity, *spec)
                for s, perplexity in zip(chunk, perplexities, strict=True)
            )
        out.flush()


def _perplexity(log_prob: float, n_tokens: float) -> float:
    try:
        return math.exp(-log_prob / n_tokens)
    except OverflowError:
        return math.inf


def _write_words(out: IO[str], sentences: Sequence[str], models: list[SentenceModel]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("sentence", "model", "position", "word", "log_prob", "surprisal"))
    for first, chunk in _chunks(sentences):
        for model in models:
            for sentence, values in zip(
                chunk, _numbered(model.score_words, chunk, first, chunk), strict=True
            ):
                words = model.language.split(sentence)
                for position, (word, value) in enumerate(zip(words, values.tolist(), strict=True)):
                    # 0.0 - value: no negative zero.
                    writer.writerow((sentence, model.name, position, word, value, 0.0 - value))


def _numbered(
    score: Callable[[Sequence[str]], _Result],
    sentences: Sequence[str],
    first: int,
    chunk: Sequence[str],
) -> _Result:
    """Score sentences of a chunk; an error says which sentence of the file it is about."""
    try:
        return score(sentences)
    except InputError:
        for number, sentence in enumerate(chunk, start=first):
            try:
                score([sentence])
            except InputError as single:
                raise InputError(f"sentence {number}: {single}") from None
        raise
