"""From labelled sentences to an acceptability classifier, by several restarts or orders.

Finished restarts are kept on the disk, so that an interrupted fine-tuning goes on where it stopped.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError, ModelFileError, require_known
from contstim.files import check_new_folder, json_digest, write_atomically
from contstim.models.cache import package_versions
from contstim.models.hf.checkpoint import digest_weights
from contstim.models.hf.encoding import check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.recurrent import read_tensors, tensor_bytes
from contstim.text.cola import PARTS, LabelledSentences, matthews_correlation, read_cola_folder
from contstim.training.encoders.base import wrap_tokenizer
from contstim.training.encoders.classifier import majority_vote, score_logits
from contstim.training.encoders.network import Encoder, load_encoder
from contstim.training.fitting import (
    CachedSentences,
    TrainableEncoder,
    add_head,
    cache_frozen_layers,
    fit,
)
from contstim.training.options import FINETUNING_DEFAULTS, FitOptions
from contstim.training.saving import training_line, write_learnt


@dataclass(frozen=True, eq=False)
class Restart:
    """One restart.

    Attributes
    ----------
    weights
        As `TrainableEncoder.trained` gives them.
    margins
        For each development set the margins of its sentences, (S,).
    row
        Its seed, correlations and losses, as JSON values.
    """

    weights: dict[str, torch.Tensor]
    margins: dict[str, FloatArray]
    row: dict[str, Any]

    @property
    def name(self) -> str:
        """What its file in the classifier's folder is called."""
        return f"restart-{self.row['seed']}"


@dataclass(frozen=True)
class RestartStore:
    """A folder of restarts of one fine-tuning, which `digest` tells from others."""

    folder: Path
    digest: str

    def _path(self, seed: int) -> Path:
        return self.folder / f"{self.digest}-{seed}.safetensors"

    def read(self, seed: int) -> Restart | None:
        """Return the restart of a seed, or None if it is not there whole."""
        try:
            tensors, row, _ = read_tensors(self._path(seed))
        except ModelFileError:
            return None
        weights = {n[2:]: t for n, t in tensors.items() if n.startswith("w.")}
        margins = {n[2:]: t.numpy() for n, t in tensors.items() if n.startswith("m.")}
        return Restart(weights, margins, row)

    def add(self, restart: Restart) -> None:
        """Keep a restart; it is on the disk, whole, when this returns."""
        tensors = {f"w.{n}": t.cpu() for n, t in restart.weights.items()}
        tensors.update({f"m.{n}": torch.from_numpy(v) for n, v in restart.margins.items()})
        write_atomically(self._path(restart.row["seed"]), tensor_bytes(tensors, restart.row))

    def clear(self, seeds: range) -> None:
        """Remove what is not needed any more, and the folder if it is then empty."""
        for seed in seeds:
            self._path(seed).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


#: Tasks by name and what their labels are.
TASKS = {"cola": "acceptable or not, after the labels of CoLA"}

# How many restarts are tried for each that is asked for.
_TRIES = 3


def prepare_sentences(
    encoder: Encoder, sentences: list[str], layers: int | None, name: str
) -> CachedSentences:
    """Tokenise sentences, words that cannot be written as unk, and run the frozen layers.

    Raises
    ------
    InputError
        If a sentence has more tokens than the network takes.
    """
    can = encoder.tokenizer.is_fast and encoder.tokenizer.unk_token_id is not None
    tokenizer = wrap_tokenizer(encoder.tokenizer, name, "unk" if can else "error")
    encoded = tokenizer.encode(sentences)
    for sentence, e in zip(sentences, encoded, strict=True):
        check_length(sentence, len(e.ids), encoder.max_tokens, name)
    return cache_frozen_layers(encoder, [e.ids for e in encoded], layers)


def train_classifier(
    encoder: Encoder,
    rows: CachedSentences,
    labels: IntArray,
    options: FitOptions,
    seed: int,
    order: int,
    label: str,
) -> tuple[TrainableEncoder, list[float]]:
    """Train one network: a head of `seed`, sentences in an `order`; return it and its losses."""
    member = add_head(encoder, 2, options.layers, seed)

    def loss(outputs: torch.Tensor, index: IntArray) -> torch.Tensor:
        """Return the mean cross-entropy of a batch's labels."""
        wanted = torch.from_numpy(labels[index]).to(outputs.device)
        return torch.nn.functional.cross_entropy(outputs, wanted)

    return member, fit(member, rows, loss, options, order, label)


@dataclass(frozen=True, eq=False)
class _Cola:
    """The parts of CoLA, labelled and tokenised for the encoder that is trained on them."""

    encoder: Encoder
    parts: dict[str, LabelledSentences]
    rows: dict[str, CachedSentences]
    options: FitOptions

    @classmethod
    def read(cls, base: str, data: Path, options: FitOptions, device: str) -> _Cola:
        """Read the folder and open the encoder."""
        parts = read_cola_folder(data)
        encoder = load_encoder(base, device)
        rows = {
            n: prepare_sentences(encoder, p.sentences, options.layers, base)
            for n, p in parts.items()
        }
        return cls(encoder, parts, rows, options)

    def train(self, seed: int, label: str) -> tuple[TrainableEncoder, list[float]]:
        """Train a head of `seed` on the first part, in an order of the same seed."""
        train = PARTS[0]
        labels = self.parts[train].labels
        return train_classifier(
            self.encoder, self.rows[train], labels, self.options, seed, seed, label
        )

    def mcc(self, part: str, margins: FloatArray) -> float:
        """Return Matthews' correlation of a part's labels with judgements of its sentences."""
        return matthews_correlation(self.parts[part].labels, margins)

    def digest(self, device: str) -> str:
        """Return the digest of all that a restart depends on besides its seed."""
        sentences = {n: [p.sentences, p.labels.tolist()] for n, p in self.parts.items()}
        network = self.encoder.network
        return json_digest(
            {
                "encoder": digest_weights(
                    network.state_dict(), self.encoder.tokenizer, network.config
                ),
                "sentences": sentences,
                "options": asdict(self.options),
                "device": device,
                "versions": package_versions(*PACKAGES),
            }
        )


def finetune(
    base: str,
    data: Path,
    out: Path,
    *,
    task: str = "cola",
    restarts: int = 10,
    options: FitOptions = FINETUNING_DEFAULTS,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, Any]:
    """Fine-tune an encoder to classify sentences, to be loaded as ``classifier:OUT``.

    Restarts differ in the head's first weights and in the order of the sentences. One whose
    labels of the out-of-domain development set correlate with the true ones at exactly 0, because
    all are alike, is degenerate: it is reported and replaced, up to three tries for each restart
    asked for. The best is the one with the highest correlation on the out-of-domain development
    set; the majority is of all that are sound, without the worst where their number is even.
    Finished restarts are kept in ``OUT.restarts`` until all are, so an interrupted call goes on
    where it stopped.

    Parameters
    ----------
    base
        The encoder to start from: a folder, a hub name or the spec of a masked model.
    data
        Folder with ``in_domain_train.tsv``, ``in_domain_dev.tsv`` and ``out_of_domain_dev.tsv``.
    out
        The folder to write.
    task
        One of `TASKS`.
    restarts
        How many sound networks to train.
    options
        How to train each; the two upper layers, three passes by default.
    seed
        Seed of the first restart; the others follow by ones.
    device
        Where to train, as PyTorch names it.

    Returns
    -------
    dict
        The record, as stored in the folder: every restart with its correlations, degenerate ones
        too, the `best` and the `majority`.

    Raises
    ------
    InputError
        For a bad number of restarts or a damaged file.
    InfeasibleError
        If every restart is degenerate.
    ModelFileError
        If `base` has no encoder.
    OutputError
        If `out` exists or cannot be written.

    Source
    ------
    Warstadt and Bowman (2019), restarts of which degenerate ones do not count; Vazquez Martinez
    (2021), section 2.2, which trains on until enough are sound.
    """
    require_known("task", task, TASKS)
    if restarts < 1:
        raise InputError(f"restarts must be at least 1, got {restarts}")
    check_new_folder(out)
    started = time.monotonic()
    cola = _Cola.read(base, data, options, device)
    store = RestartStore(out.with_name(out.name + ".restarts"), cola.digest(device))
    seeds = range(seed, seed + _TRIES * restarts)
    made, degenerate = _sound_restarts(cola, store, seeds, restarts)
    ranked = sorted(made, key=lambda r: -r.row[PARTS[2]])
    voters = ranked if len(ranked) % 2 else ranked[:-1]
    record = {
        "kind": "classifier",
        "task": TASKS[task],
        "base": base,
        "best": ranked[0].name,
        "majority": [restart.name for restart in voters],
        "mcc": _summary(ranked, voters, cola),
        "restarts": [restart.row for restart in made],
        "degenerate": degenerate,
        "training": {
            **asdict(options),
            "seed": seed,
            "sentences": {name: len(part) for name, part in cola.parts.items()},
            "seconds": round(time.monotonic() - started, 1),
        },
        "versions": package_versions(*PACKAGES),
    }
    weights = {r.name: r.weights for r in made}
    write_learnt(out, cola.encoder, weights, record, _card(record))
    store.clear(seeds)
    return record


def _sound_restarts(
    cola: _Cola, store: RestartStore, seeds: range, wanted: int
) -> tuple[list[Restart], list[dict[str, Any]]]:
    """Return as many sound restarts as are wanted, if `seeds` suffice, and the degenerate ones.

    Raises
    ------
    InfeasibleError
        If every restart is degenerate.
    """
    made: list[Restart] = []
    degenerate: list[dict[str, Any]] = []
    for number in seeds:
        restart = store.read(number)
        if restart is None:
            restart = _one(cola, number, f"restart {len(made) + 1} of {wanted}")
            store.add(restart)
        row = restart.row
        if row["degenerate"]:
            degenerate.append(row)
        else:
            made.append(restart)
        print(
            f"seed {row['seed']}: Matthews' correlation {row[PARTS[1]]:.3f} in domain, "
            f"{row[PARTS[2]]:.3f} out of domain; "
            + ("degenerate, to be replaced" if row["degenerate"] else "sound"),
            file=sys.stderr,
        )
        if len(made) == wanted:
            break
    if not made:
        raise InfeasibleError(
            f"all {len(degenerate)} restarts are degenerate, giving every sentence one label; "
            "train longer (--epochs), more layers (--layers), or at another --learning-rate"
        )
    return made, degenerate


def _one(cola: _Cola, seed: int, label: str) -> Restart:
    started = time.monotonic()
    member, losses = cola.train(seed, label)
    margins = {p: score_logits(cola.rows[p].outputs(member), "margin") for p in PARTS[1:]}
    mcc = {p: cola.mcc(p, margins[p]) for p in PARTS[1:]}
    row: dict[str, Any] = {
        "seed": seed,
        **mcc,
        "degenerate": mcc[PARTS[2]] == 0.0,
        "losses": losses,
        "seconds": round(time.monotonic() - started, 1),
    }
    return Restart(member.trained(), margins, row)


def _summary(
    ranked: list[Restart], voters: list[Restart], cola: _Cola
) -> dict[str, dict[str, float]]:
    """Return mean, standard deviation, best and majority for each development set."""
    by_part = {}
    for part in PARTS[1:]:
        values = np.array([restart.row[part] for restart in ranked])
        by_part[part] = {
            "mean": float(values.mean()),
            "sd": float(values.std()),
            "best": float(values[0]),
            "majority": cola.mcc(
                part, majority_vote([restart.margins[part] for restart in voters])
            ),
        }
    return by_part


def _card(record: Mapping[str, Any]) -> str:
    """Return the card of a classifier from its record."""
    lines = [
        "# Acceptability classifier",
        "",
        f"Labels: {record['task']}. The score is a judgement, not the probability of a sentence.",
        "",
        "Matthews' correlation on the development sets. The best was chosen on the second, so its "
        "figure there flatters it a little.",
        "",
        "| set | sentences | mean | sd | best | majority |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for part, mcc in record["mcc"].items():
        n = record["training"]["sentences"][part]
        lines.append(
            f"| {part} | {n} | {mcc['mean']:.3f} | {mcc['sd']:.3f} | {mcc['best']:.3f} | "
            f"{mcc['majority']:.3f} |"
        )
    seeds = ", ".join(str(row["seed"]) for row in record["restarts"])
    degenerate = ", ".join(str(row["seed"]) for row in record["degenerate"]) or "none"
    lines += [
        "",
        f"Restarts of seeds {seeds}; degenerate and replaced: {degenerate}. Majority of "
        f"{len(record['majority'])}.",
        "",
        training_line(record),
        "",
    ]
    return "\n".join(lines)
