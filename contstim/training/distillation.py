"""Distillation: training a fast network on another model's sentence scores."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InputError
from contstim.files import check_new_folder
from contstim.models.base import SentenceModel
from contstim.models.cache import ScoreCache, describe_model, package_versions
from contstim.models.hf.network import PACKAGES
from contstim.progress import track
from contstim.training.encoders.base import wrap_tokenizer
from contstim.training.encoders.network import Encoder, load_encoder
from contstim.training.encoders.student import RegressionTarget
from contstim.training.fitting import add_head, cache_frozen_layers, fit
from contstim.training.options import DISTILLATION_DEFAULTS, FitOptions
from contstim.training.saving import describe_training, save_trained_networks

# Number of sentences that the teacher scores before the scores are saved.
_CHUNK_SIZE = 1000
# Maximum number of held-out sentences by default.
_MAX_HELDOUT = 2000


def distill(
    teacher: SentenceModel,
    sentences: Sequence[str],
    out: Path,
    *,
    base: str | None = None,
    heldout: Sequence[str] | None = None,
    options: FitOptions = DISTILLATION_DEFAULTS,
    cache: Path | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, Any]:
    """Train a fast network, the student, to reproduce another model's sentence scores.

    The student is an encoder with a linear head on the output of the first token. It is fitted to
    the scores of the other model, the teacher, by least squares (Salazar et al. 2020, section 2.2),
    after subtraction of a linear trend in the number of tokens (`RegressionTarget`). It is written
    to a folder and loaded as ``student:OUT``. The teacher's scores are saved after every thousand
    sentences. If an interrupted call is repeated, it continues with the saved scores; only the
    training of the student starts again.

    Parameters
    ----------
    teacher
        Any model, with any metric and reduction.
    sentences
        Training sentences. Sentences with words unknown to the teacher or the student and sentences
        too long for the student are left out and counted.
    out
        Folder to write.
    base
        Encoder to start from (see `load_encoder`); by default the encoder of the teacher.
    heldout
        Sentences for the evaluation, which are excluded from training; by default a random tenth of
        the sentences, at most 2,000.
    options
        Training options; by default 5 epochs.
    cache
        Folder of the teacher's scores; by default ``OUT.scores``.
    seed
        Seed of the initial weights, the order of the sentences and the default held-out sentences.
    device
        PyTorch name of the training device.

    Returns
    -------
    dict
        The training record, which is also stored in the folder. ``heldout`` contains the Pearson
        and Spearman correlations with the teacher and the root mean squared error.

    Raises
    ------
    InputError
        If fewer than 10 training or 3 held-out sentences remain, or the teacher refuses a sentence.
    ModelFileError
        If there is no encoder to start from.
    OutputError
        If `out` exists or cannot be written.
    """
    check_new_folder(out)
    base = teacher.spec if base is None else base
    encoder = load_encoder(base, device)

    training_texts, heldout_texts = _split_sentences(teacher, sentences, heldout, seed)
    training = _select_scorable_sentences(teacher, encoder, training_texts)
    unseen = _select_scorable_sentences(teacher, encoder, heldout_texts)
    n_training, n_unseen = len(training.texts), len(unseen.texts)
    if n_training < 10 or n_unseen < 3:
        raise InputError(
            f"{n_training} training and {n_unseen} held-out sentences, of {len(training_texts)} "
            f"and {len(heldout_texts)} given, are too few; give at least 10 and 3 without words "
            "that are unknown to the teacher or the student"
        )

    cache = out.with_name(out.name + ".scores") if cache is None else cache
    scores = _score_sentences(teacher, [*training.texts, *unseen.texts], cache)
    training_scores, unseen_scores = scores[:n_training], scores[n_training:]

    # Train the student.
    is_sum = teacher.event.reduction == "sum"
    target = RegressionTarget.fit(training_scores, training.n_tokens, is_sum)
    residuals = torch.from_numpy(target.residuals(training_scores, training.n_tokens)).float()
    output_weights = torch.from_numpy(target.weights(training.n_tokens)).float()

    def squared_error(outputs: torch.Tensor, indices: IntArray) -> torch.Tensor:
        predicted = outputs[:, 0] * output_weights[indices].to(outputs.device)
        return ((predicted - residuals[indices].to(outputs.device)) ** 2).mean()

    member = add_head(encoder, 1, options.layers, seed)
    started = time.monotonic()
    rows = cache_frozen_layers(encoder, training.ids, options.layers)
    losses = fit(member, rows, squared_error, options, seed, "student")
    weights = member.trained_weights()

    # Evaluate the student on the held-out sentences.
    outputs = cache_frozen_layers(encoder, unseen.ids, options.layers).outputs(member)[:, 0]
    estimates = target.predict(outputs, unseen.n_tokens)
    trend = target.trend(unseen.n_tokens)
    if options.layers is None:
        # Store the whole network as the encoder and only the head separately.
        encoder = Encoder(member.network, encoder.tokenizer, encoder.device, encoder.max_tokens)
        weights = {name: weight for name, weight in weights.items() if name.startswith("head.")}
    highest = teacher.kind.highest
    record = {
        "kind": "student",
        "teacher": {
            **describe_model(teacher),
            "highest": highest if math.isfinite(highest) else None,
            "differs_in_nats": teacher.kind.differs_in_nats,
            "reduction": teacher.event.reduction,
        },
        "base": base,
        "target": asdict(target),
        "heldout": {
            "sentences": n_unseen,
            "pearson": float(pearsonr(unseen_scores, estimates).statistic),
            "spearman": float(spearmanr(unseen_scores, estimates).statistic),
            "rmse": float(np.sqrt(np.mean((unseen_scores - estimates) ** 2))),
            "sd": float(unseen_scores.std()),  # of the teacher's scores
            "pearson_of_length": float(pearsonr(unseen_scores, trend).statistic)
            if np.ptp(unseen.n_tokens)
            else None,
        },
        "training": {
            **asdict(options),
            "seed": seed,
            "sentences": n_training,
            "left_out": len(training_texts) + len(heldout_texts) - n_training - n_unseen,
            "losses": losses,
            "seconds": round(time.monotonic() - started, 1),
        },
        "versions": package_versions(*PACKAGES),
    }
    save_trained_networks(out, encoder, {"student": weights}, record, _format_model_card(record))
    return record


def _split_sentences(
    teacher: SentenceModel, sentences: Sequence[str], heldout: Sequence[str] | None, seed: int
) -> tuple[list[str], list[str]]:
    """Split distinct sentences into training sentences and held-out sentences.

    Parameters
    ----------
    teacher
        Model whose language determines how spaces are normalised.
    sentences
        Sentences to split.
    heldout
        Held-out sentences; None to draw a tenth of the sentences at random.
    seed
        Seed of the random draw.

    Returns
    -------
    training, heldout : list of str
        Distinct sentences; no held-out sentence is among the training sentences.
    """
    normalise = teacher.language.normalise_spacing
    # Remove duplicates, also those that differ only in spaces.
    distinct = list(dict.fromkeys(map(normalise, sentences)))
    if heldout is None:
        # By default, hold out a random tenth of the sentences, up to a maximum number.
        order = np.random.default_rng(seed).permutation(len(distinct))
        drawn = order[: min(_MAX_HELDOUT, len(distinct) // 10)]
        heldout_texts = [distinct[i] for i in sorted(drawn)]
    else:
        heldout_texts = list(dict.fromkeys(map(normalise, heldout)))
    # A held-out sentence must not be used for training.
    excluded = set(heldout_texts)
    return [text for text in distinct if text not in excluded], heldout_texts


def _score_sentences(teacher: SentenceModel, texts: Sequence[str], cache: Path) -> FloatArray:
    """Score sentences with the teacher and save the scores after every chunk of sentences.

    Parameters
    ----------
    teacher
        Model that scores the sentences.
    texts
        S distinct sentences.
    cache
        Folder of saved scores. Sentences with a saved score are not scored again.

    Returns
    -------
    array
        Scores, shape (S,).

    Raises
    ------
    InputError
        If a score is not finite.
    """
    store = ScoreCache(cache)
    # Scores are saved after each chunk, so that an interrupted run can continue.
    chunks = [texts[start : start + _CHUNK_SIZE] for start in range(0, len(texts), _CHUNK_SIZE)]
    chunk_scores = [
        store.score_with_counts(teacher, chunk).score
        for chunk in track(chunks, len(chunks), "teacher scores, in thousands")
    ]
    # The model cannot be fitted to an infinite or undefined score.
    scores = np.concatenate(chunk_scores)
    if not np.isfinite(scores).all():
        invalid = texts[int(np.flatnonzero(~np.isfinite(scores))[0])]
        raise InputError(f"{teacher.spec} has no finite score for {invalid!r}; leave it out")
    return scores


class _UsableSentences(NamedTuple):
    """S sentences that both teacher and student can score, tokenised for the student.

    Attributes
    ----------
    texts
        The sentences.
    ids
        Token ids of each sentence, including special tokens.
    n_tokens
        Number of tokens of each sentence without special tokens, shape (S,).
    """

    texts: list[str]
    ids: list[IntArray]
    n_tokens: IntArray


def _select_scorable_sentences(
    teacher: SentenceModel, encoder: Encoder, texts: list[str]
) -> _UsableSentences:
    """Select the sentences that both the teacher and the student can score.

    All words of a selected sentence are in both vocabularies, and the sentence is not too long for
    the student.

    Parameters
    ----------
    teacher
        Model with the scores to learn.
    encoder
        Encoder from which the student is trained.
    texts
        Sentences to select from.

    Returns
    -------
    _UsableSentences
        The selected sentences, tokenised for the student.
    """
    tokenizer = wrap_tokenizer(encoder.tokenizer, "the student", "error")
    # Exclude sentences with a word that the teacher or the student does not know.
    # The teacher's language determines its words; the student's words are separated by spaces.
    for vocabulary, language in ((teacher, teacher.language), (tokenizer, tokenizer.language)):
        words = list(dict.fromkeys(word for text in texts for word in language.split(text)))
        is_known = vocabulary.in_vocabulary(words)
        known_words = set(itertools.compress(words, is_known))
        texts = [text for text in texts if text and known_words.issuperset(language.split(text))]

    # Exclude sentences that are too long for the student, including its special tokens.
    max_tokens = math.inf if encoder.max_tokens is None else encoder.max_tokens
    usable_texts, ids, n_tokens = [], [], []
    for text, tokens in zip(texts, tokenizer.encode(texts), strict=True):
        if len(tokens.ids) <= max_tokens:
            usable_texts.append(text)
            ids.append(tokens.ids)
            n_tokens.append(len(tokens.scored_positions))
    return _UsableSentences(usable_texts, ids, np.array(n_tokens, dtype=np.int64))


def _format_model_card(record: Mapping[str, Any]) -> str:
    """Return the model card of a student."""
    heldout, training = record["heldout"], record["training"]
    # The correlations between student and teacher were computed on held-out sentences.
    return (
        f"# Student of `{record['teacher']['spec']}`\n\n"
        "Estimates the teacher's sentence score in one forward pass, from the output of the first "
        "token (Salazar et al. 2020, section 2.2). There are no scores per word.\n\n"
        "| held-out sentences | Pearson | Spearman | root mean squared error | standard deviation "
        "of the teacher's scores |\n"
        "| ---: | ---: | ---: | ---: | ---: |\n"
        f"| {heldout['sentences']} | {heldout['pearson']:.4f} | {heldout['spearman']:.4f} | "
        f"{heldout['rmse']:.3f} | {heldout['sd']:.3f} |\n\n"
        f"{describe_training(record)} Trained on {training['sentences']} sentences; "
        f"{training['left_out']} sentences were left out because they are too long or contain "
        "words unknown to the teacher or the student.\n"
    )
