"""Teaching a network another model's sentence score."""

from __future__ import annotations

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
from contstim.training.fitting import TrainableEncoder, add_head, cache_frozen_layers, fit
from contstim.training.options import DISTILLATION_DEFAULTS, FitOptions
from contstim.training.saving import training_line, write_learnt

# Sentences that the teacher scores between two writes to the disk.
_CHUNK = 1000
# The held-out part: at most a tenth, and no more than this.
_HELDOUT = 2000


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
    """Teach a network a model's sentence score, to be loaded as ``student:OUT``.

    The teacher scores every sentence; the network, an encoder with a linear head on the first
    token's vector, learns these scores by least squares (Salazar et al. 2020, section 2.2; see
    `RegressionTarget` for the linear trend in sentence length). The teacher's scores are saved
    after every thousand sentences, so an interrupted call repeats little of the scoring; the
    training itself starts again.

    Parameters
    ----------
    teacher
        Any model, with any metric or reduction.
    sentences
        Sentences to learn from. Those with words that teacher or student cannot write, and those
        too long for the student, are left out and counted.
    out
        The folder to write.
    base
        The encoder to start from, as `load_encoder` takes it; by default the teacher's own.
    heldout
        Sentences to measure the student on; by default a tenth of the sentences, at most 2,000,
        drawn at random and not learnt from. Sentences that are given as both are not learnt from.
    options
        How to train; 5 passes by default.
    cache
        Folder of the teacher's scores; by default ``OUT.scores``, beside `out`.
    seed
        Seed of the head's first weights, the order of the sentences and the held-out part.
    device
        Where the student is trained, as PyTorch names it.

    Returns
    -------
    dict
        The record, as stored in the folder; ``heldout`` gives Pearson's and Spearman's
        correlation with the teacher and the root mean squared error.

    Raises
    ------
    InputError
        If too few sentences are left, or the teacher refuses one.
    ModelFileError
        If there is no encoder to start from.
    OutputError
        If `out` exists or cannot be written.
    """
    check_new_folder(out)
    encoder = load_encoder(teacher.spec if base is None else base, device)
    learnt, unseen, left_out = _parts(teacher, encoder, sentences, heldout, seed)
    store = ScoreCache(out.with_name(out.name + ".scores") if cache is None else cache)
    scores = _score(teacher, [*learnt.texts, *unseen.texts], store)
    taught, other = scores[: len(learnt.texts)], scores[len(learnt.texts) :]
    target = RegressionTarget.fit(taught, learnt.n_tokens, teacher.event.reduction == "sum")
    member = add_head(encoder, 1, options.layers, seed)
    started = time.monotonic()
    losses = _train(member, encoder, learnt, taught, target, options, seed)
    weights = member.trained()
    outputs = cache_frozen_layers(encoder, unseen.ids, options.layers).outputs(member)[:, 0]
    if options.layers is None:
        # Everything was trained: the folder's encoder is the trained one, its head apart.
        encoder = Encoder(member.network, encoder.tokenizer, encoder.device, encoder.max_tokens)
        weights = {name: w for name, w in weights.items() if name.startswith("head.")}
    record = {
        "kind": "student",
        "teacher": {
            **describe_model(teacher),
            "highest": teacher.kind.highest if math.isfinite(teacher.kind.highest) else None,
            "differs_in_nats": teacher.kind.differs_in_nats,
            "reduction": teacher.event.reduction,
        },
        "base": teacher.spec if base is None else base,
        "target": asdict(target),
        "heldout": _agreement(other, outputs, target, unseen.n_tokens),
        "training": {
            **asdict(options),
            "seed": seed,
            "sentences": len(learnt.texts),
            "left_out": left_out,
            "losses": losses,
            "seconds": round(time.monotonic() - started, 1),
        },
        "versions": package_versions(*PACKAGES),
    }
    write_learnt(out, encoder, {"student": weights}, record, _card(record))
    return record


class _Text(NamedTuple):
    """S sentences with their tokens: `ids` with special tokens, `n_tokens` (S,) without."""

    texts: list[str]
    ids: list[IntArray]
    n_tokens: IntArray


def _parts(
    teacher: SentenceModel,
    encoder: Encoder,
    sentences: Sequence[str],
    heldout: Sequence[str] | None,
    seed: int,
) -> tuple[_Text, _Text, int]:
    """Return what is learnt from, what is held out, and how many sentences were left out."""
    rng = np.random.default_rng(seed)
    tidy = teacher.language.normalise_spacing
    listed = list(dict.fromkeys(map(tidy, sentences)))
    if heldout is None:
        drawn = rng.permutation(len(listed))[: min(_HELDOUT, len(listed) // 10)]
        unseen = [listed[i] for i in sorted(drawn)]
    else:
        unseen = list(dict.fromkeys(map(tidy, heldout)))
    apart = set(unseen)
    learnt = [s for s in listed if s not in apart]
    usable = [_usable(teacher, encoder, texts) for texts in (learnt, unseen)]
    n_learnt, n_unseen = (len(text.texts) for text in usable)
    if n_learnt < 10 or n_unseen < 3:
        raise InputError(
            f"{n_learnt} sentences to learn from and {n_unseen} to be measured on, of "
            f"{len(learnt)} and {len(unseen)} given, are too few; give at least 10 and 3 whose "
            "words teacher and student know"
        )
    return usable[0], usable[1], len(learnt) + len(unseen) - n_learnt - n_unseen


def _usable(teacher: SentenceModel, encoder: Encoder, texts: list[str]) -> _Text:
    tokenizer = wrap_tokenizer(encoder.tokenizer, "the student", "error")
    # The teacher's words; what stands between spaces is what a network without a language reads.
    written = texts
    for judge, language in ((teacher, teacher.language), (tokenizer, tokenizer.language)):
        split = language.split
        words = list(dict.fromkeys(word for text in written for word in split(text)))
        known_words = {w for w, k in zip(words, judge.in_vocabulary(words), strict=True) if k}
        written = [text for text in written if text and known_words.issuperset(split(text))]
    most = math.inf if encoder.max_tokens is None else encoder.max_tokens
    short = [
        (text, e)
        for text, e in zip(written, tokenizer.encode(written), strict=True)
        if len(e.ids) <= most
    ]
    n_tokens = np.array([len(e.scored_positions) for _, e in short], dtype=np.int64)
    return _Text([text for text, _ in short], [e.ids for _, e in short], n_tokens)


def _score(teacher: SentenceModel, texts: list[str], store: ScoreCache) -> FloatArray:
    chunks = [texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)]
    chunk_scores = [
        store.score_with_counts(teacher, chunk).score
        for chunk in track(chunks, len(chunks), "teacher scores, in thousands")
    ]
    scores = np.concatenate(chunk_scores)
    if not np.isfinite(scores).all():
        wrong = texts[int(np.flatnonzero(~np.isfinite(scores))[0])]
        raise InputError(f"{teacher.spec} gives no finite score for {wrong!r}; leave it out")
    return scores


def _train(
    member: TrainableEncoder,
    encoder: Encoder,
    learnt: _Text,
    scores: FloatArray,
    target: RegressionTarget,
    options: FitOptions,
    seed: int,
) -> list[float]:
    wanted = torch.from_numpy(target.residual(scores, learnt.n_tokens)).float()
    factor = torch.from_numpy(target.factor(learnt.n_tokens)).float()

    def loss(outputs: torch.Tensor, index: IntArray) -> torch.Tensor:
        device = outputs.device
        error = outputs[:, 0] * factor[index].to(device) - wanted[index].to(device)
        return (error**2).mean()

    rows = cache_frozen_layers(encoder, learnt.ids, options.layers)
    return fit(member, rows, loss, options, seed, "student")


def _agreement(
    scores: FloatArray, outputs: FloatArray, target: RegressionTarget, n_tokens: IntArray
) -> dict[str, Any]:
    estimates = target.score(outputs, n_tokens)
    return {
        "sentences": len(scores),
        "pearson": float(pearsonr(scores, estimates).statistic),
        "spearman": float(spearmanr(scores, estimates).statistic),
        "rmse": float(np.sqrt(np.mean((scores - estimates) ** 2))),
        "sd": float(scores.std()),
        "pearson_of_length": float(pearsonr(scores, target.line(n_tokens)).statistic)
        if np.ptp(n_tokens)
        else None,
    }


def _card(record: Mapping[str, Any]) -> str:
    """Return the card of a student from its record."""
    heldout, training = record["heldout"], record["training"]
    return (
        f"# Student of `{record['teacher']['spec']}`\n\n"
        "Estimates the teacher's sentence score in one pass, from the first token's vector "
        "(Salazar et al. 2020, section 2.2). Words have no share of it.\n\n"
        "| held-out sentences | Pearson | Spearman | root mean squared error | standard deviation "
        "of the teacher's scores |\n"
        "| ---: | ---: | ---: | ---: | ---: |\n"
        f"| {heldout['sentences']} | {heldout['pearson']:.4f} | {heldout['spearman']:.4f} | "
        f"{heldout['rmse']:.3f} | {heldout['sd']:.3f} |\n\n"
        f"{training_line(record)} Learnt from {training['sentences']} sentences; "
        f"{training['left_out']} were left out, with words that one of the two cannot write or too "
        "long.\n"
    )
