"""Score sentences under one or several models.

Writes the table `scores` as CSV: sentence, model, log_prob (in nats, which are units of natural
logarithms, unless unit says otherwise; higher is better), n_tokens, n_words, stderr, unit, and
perplexity, exp(-log_prob / n_tokens), where log_prob is a log-probability (for a masked model the
pseudo-perplexity). A model without a start token cannot predict the first word; a column not_scored
says so, and the option prefix of the spec sets a start token. With --by word the table has the
surprisal of each word. What each model gives a probability, with or without full stop and end, is
its event; it is stated on standard error.

examples:
  contstim score --model contstim:trigram --model contstim:lstm sentences.txt --out scores.csv
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter

from contstim.cli.application import create_application
from contstim.cli.common import print_message, report_model, write_output
from contstim.cli.parameters import STANDARD_OUTPUT, File, OutputFile, Spec
from contstim.errors import InputError
from contstim.tables import SCORES, SPEC, UNIT
from contstim.text import read_sentences

if TYPE_CHECKING:
    from contstim.models.base import SentenceModel

_CHUNK = 2048

_Result = TypeVar("_Result")


app = create_application("score", __doc__)


@app.default
def score(
    sentences: File,
    /,
    *,
    model: Annotated[tuple[Spec, ...], Parameter(metavar="[NAME=]SPEC")],
    by: Annotated[Literal["sentence", "word"], Parameter(metavar="ROW")] = "sentence",
    out: OutputFile = STANDARD_OUTPUT,
) -> None:
    """Score sentences.

    Parameters
    ----------
    sentences
        sentences, one per line, or a CSV with a column 'sentence' or with pairs, sentence_1 and
        sentence_2; - reads standard input
    model
        model, which tables call NAME if it has one
    by
        one row per sentence or per word
    out
        output table [standard output]
    """
    from contstim.models.registry import load_models
    from contstim.models.training_overlap import training_overlap_notes

    texts = read_sentences(sentences, pairs=True)
    models = load_models(model)
    for loaded in models:
        report_model(loaded)
    for note in training_overlap_notes([loaded.spec for loaded in models], texts):
        print_message(note)
    write = _write_words if by == "word" else _write_sentences
    with write_output(out, [sentences]) as file:
        write(file, texts, models)


def _chunks(sentences: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield chunks of sentences, each with the number of its first sentence, from 1."""
    for start in range(0, len(sentences), _CHUNK):
        yield start + 1, list(sentences[start : start + _CHUNK])


def _write_sentences(out: IO[str], sentences: Sequence[str], models: list[SentenceModel]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    # Where a model is called otherwise, the table says what it is.
    has_specs = any(model.name != model.spec for model in models)
    # Where a model has no start token, the table says what it leaves out.
    has_missing = any(model.event.skips_first_word for model in models)
    columns = [*[SPEC] * has_specs, *["not_scored"] * has_missing]
    writer.writerow((*SCORES, UNIT, "perplexity", *columns))
    # In another batch a score may have other last digits, and a sentence has one score.
    repeated = {sentence for sentence, n in Counter(sentences).items() if n > 1}
    figures_before: list[dict[str, tuple[float, ...]]] = [{} for _ in models]
    for first, chunk in _chunks(sentences):
        for model, before in zip(models, figures_before, strict=True):
            new = list(dict.fromkeys(sentence for sentence in chunk if sentence not in before))
            figures = dict(before)
            if new:
                totals = _numbered(model.score_with_counts, new, first, chunk)
                arrays = (totals.score, totals.n_tokens, totals.n_words, totals.stderr)
                rows = zip(*(array.tolist() for array in arrays), strict=True)
                figures.update(zip(new, rows, strict=True))
                before.update((s, figures[s]) for s in repeated.intersection(new))
            unit = model.kind.unit
            missing = "first word" if model.event.skips_first_word else ""
            stated = [*[model.spec] * has_specs, *[missing] * has_missing]
            plain = model.event.reduction == "sum" and unit == "nats"
            perplexities = (
                _perplexity(*figures[s][:2]) if plain and figures[s][1] else "" for s in chunk
            )
            writer.writerows(
                (s, model.name, *figures[s], unit, perplexity, *stated)
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
