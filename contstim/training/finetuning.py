"""Fine-tuning of acceptability classifiers with several random restarts.

Completed restarts are saved, so that an interrupted fine-tuning continues when it is repeated.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from contstim.arrays import FloatArray, IntArray
from contstim.errors import InfeasibleError, InputError, ModelFileError
from contstim.files import check_new_folder, json_digest, write_atomically
from contstim.models.cache import package_versions
from contstim.models.hf.checkpoint import digest_weights
from contstim.models.hf.encoding import check_length
from contstim.models.hf.network import PACKAGES
from contstim.models.recurrent import read_tensors
from contstim.training import fitting
from contstim.training.cola import PARTS, LabelledSentences, matthews_correlation, read_cola_folder
from contstim.training.encoders.base import wrap_tokenizer
from contstim.training.encoders.classifier import majority_vote, score_logits
from contstim.training.encoders.network import Encoder, load_encoder
from contstim.training.network_files import tensor_bytes
from contstim.training.options import FINETUNING_DEFAULTS, FitOptions
from contstim.training.saving import describe_training, save_trained_networks

# Maximum number of attempts per restart.
_MAX_ATTEMPTS = 3


@dataclass(frozen=True, eq=False)
class Restart:
    """An acceptability classifier that was trained from one random initialisation.

    Attributes
    ----------
    weights
        Trained weights by name, as returned by `TrainableEncoder.trained_weights`.
    margins
        Margin of each of S sentences, shape (S,), by name of the development set. The margin is the
        logit of the label "acceptable" minus the logit of "unacceptable".
    row
        Seed, Matthews correlations and losses as JSON values: one row of the training record.
    """

    weights: dict[str, torch.Tensor]
    margins: dict[str, FloatArray]
    row: dict[str, Any]

    @property
    def name(self) -> str:
        """Name of the file of its weights in the folder of the classifier."""
        return f"restart-{self.row['seed']}"


@dataclass(frozen=True)
class RestartStore:
    """Folder for intermediate results, with which an interrupted fine-tuning can be continued.

    Fine-tuning trains one classifier from each of several random initialisations, called restarts.
    Each trained classifier is saved in the folder and need not be trained again.

    Attributes
    ----------
    folder
        Folder with one file per restart.
    digest
        Digest of all arguments of the fine-tuning except the seeds. It is part of the file names,
        so that restarts of a fine-tuning with other arguments are not used.
    """

    folder: Path
    digest: str

    def _path(self, seed: int) -> Path:
        return self.folder / f"{self.digest}-{seed}.safetensors"

    def load(self, seed: int) -> Restart | None:
        """Read the classifier of one restart from its file.

        Parameters
        ----------
        seed
            Random seed of the restart, that is, of the random initialisation.

        Returns
        -------
        Restart or None
            Trained classifier; None if it has not been saved or its file is incomplete.
        """
        try:
            tensors, row, _ = read_tensors(self._path(seed))
        except ModelFileError:
            return None
        # The file stores weights under the keys "w.NAME" and margins under "m.NAME".
        weights = {key[2:]: tensor for key, tensor in tensors.items() if key.startswith("w.")}
        margins = {key[2:]: t.numpy() for key, t in tensors.items() if key.startswith("m.")}
        return Restart(weights, margins, row)

    def save(self, restart: Restart) -> None:
        """Write the weights and margins of a restart to a file, atomically."""
        tensors = {f"w.{name}": tensor.cpu() for name, tensor in restart.weights.items()}
        tensors |= {f"m.{name}": torch.from_numpy(m) for name, m in restart.margins.items()}
        write_atomically(self._path(restart.row["seed"]), tensor_bytes(tensors, restart.row))

    def clear(self, seeds: range) -> None:
        """Delete the files of restarts with these seeds, and then the folder if it is empty."""
        for seed in seeds:
            self._path(seed).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def prepare_sentences(
    encoder: Encoder, sentences: list[str], layers: int | None, name: str
) -> fitting.CachedSentences:
    """Tokenise training sentences and cache the outputs of the layers that are not trained.

    Unknown words become the ``unk`` token if the tokenizer has one.

    Parameters
    ----------
    encoder
        Encoder before training.
    sentences
        Sentences to tokenise.
    layers
        Number of upper layers to train; None to train the whole network, so that nothing is cached.
    name
        Name of the model, for messages.

    Raises
    ------
    InputError
        If a sentence has more tokens than the network accepts.
    """
    has_unk = encoder.tokenizer.is_fast and encoder.tokenizer.unk_token_id is not None
    tokenizer = wrap_tokenizer(encoder.tokenizer, name, "unk" if has_unk else "error")
    encoded = tokenizer.encode(sentences)
    for sentence, tokens in zip(sentences, encoded, strict=True):
        check_length(sentence, len(tokens.ids), encoder.max_tokens, name)
    return fitting.cache_frozen_layers(encoder, [tokens.ids for tokens in encoded], layers)


def train_classifier(
    encoder: Encoder,
    sentences: fitting.CachedSentences,
    labels: IntArray,
    options: FitOptions,
    seed: int,
    order_seed: int,
    progress_label: str,
) -> tuple[fitting.TrainableEncoder, list[float]]:
    """Train an encoder with a linear head to classify sentences as acceptable or unacceptable.

    The loss is the cross-entropy of the labels.

    Parameters
    ----------
    encoder
        Encoder to start from.
    sentences
        S training sentences.
    labels
        1 for acceptable and 0 for unacceptable, shape (S,).
    options
        Training options.
    seed, order_seed
        Seeds for the initial weights of the head, and for the order of the sentences.
    progress_label
        Name of the training in the progress report.

    Returns
    -------
    classifier : TrainableEncoder
        Trained encoder with its head, which has one output per label.
    losses : list of float
        Mean loss of each epoch.
    """
    n_labels = 2
    # The head, a new linear layer, has one output per label: unacceptable and acceptable.
    classifier = fitting.add_head(encoder, n_labels, options.layers, seed)

    # Loss of one batch, given the outputs of the head and the indices of the batch's sentences.
    def cross_entropy(outputs: torch.Tensor, indices: IntArray) -> torch.Tensor:
        targets = torch.from_numpy(labels[indices]).to(outputs.device)
        return torch.nn.functional.cross_entropy(outputs, targets)

    losses = fitting.fit(classifier, sentences, cross_entropy, options, order_seed, progress_label)
    return classifier, losses


def finetune(
    base: str,
    data: Path,
    out: Path,
    *,
    restarts: int = 10,
    options: FitOptions = FINETUNING_DEFAULTS,
    seed: int = 0,
    device: str = "cpu",
) -> dict[str, Any]:
    """Fine-tune an encoder to classify sentences as acceptable or unacceptable.

    The classifier is written to a folder and loaded as ``classifier:OUT``. It is trained several
    times (restarts), with different initial weights of the head and orders of the sentences.

    - A restart is *degenerate* if it predicts the same label for all sentences of the out-of-domain
      development set, so that its Matthews correlation is 0. It is reported and repeated with a new
      seed, until the total number of trained networks reaches 3 `restarts` (Warstadt and Bowman
      2019; Vázquez Martínez 2021, section 2.2).
    - The best restart has the highest correlation on the out-of-domain development set.
    - Optionally, the restarts vote for the label (majority vote). If their number is even, the
      worst one has no vote, to avoid ties.

    Completed restarts are saved in ``OUT.restarts`` until the end. If an interrupted call is
    repeated, it continues with the saved restarts.

    Parameters
    ----------
    base
        Encoder to start from: a folder, a name on the Hugging Face Hub, or the specification string
        of a masked model.
    data
        Folder with ``in_domain_train.tsv``, ``in_domain_dev.tsv`` and ``out_of_domain_dev.tsv``.
    out
        Folder to write.
    restarts
        Number of restarts to complete, not counting degenerate ones.
    options
        Training options; by default 3 epochs and the two upper layers.
    seed
        Seed of the first restart, which increases by 1 for each further restart.
    device
        PyTorch name of the training device.

    Returns
    -------
    dict
        The training record, which is also stored in the folder: correlations of all restarts,
        including degenerate ones, and the names of the `best` and the voting (`majority`) restarts.

    Raises
    ------
    InputError
        If the number of restarts is invalid, or a data file is damaged.
    InfeasibleError
        If all restarts are degenerate.
    ModelFileError
        If `base` has no encoder.
    OutputError
        If `out` exists or cannot be written.
    """
    if restarts < 1:
        raise InputError(f"restarts must be at least 1, got {restarts}")
    check_new_folder(out)
    started = time.monotonic()
    _, in_domain, out_of_domain = PARTS
    parts = read_cola_folder(data)
    encoder = load_encoder(base, device)
    sentences = {
        name: prepare_sentences(encoder, part.sentences, options.layers, base)
        for name, part in parts.items()
    }
    digest = _digest_arguments(encoder, parts, options, device)
    store = RestartStore(out.with_name(out.name + ".restarts"), digest)
    seeds = range(seed, seed + _MAX_ATTEMPTS * restarts)

    # Train until there are enough restarts that are not degenerate.
    completed: list[Restart] = []
    degenerate: list[dict[str, Any]] = []
    for restart_seed in seeds:
        restart = store.load(restart_seed)
        if restart is None:
            label = f"restart {len(completed) + 1} of {restarts}"
            restart = _train_restart(encoder, sentences, parts, options, restart_seed, label)
            store.save(restart)
        row = restart.row
        if row["degenerate"]:
            degenerate.append(row)
        else:
            completed.append(restart)
        outcome = "degenerate, to be replaced" if row["degenerate"] else "not degenerate"
        correlations = f"{row[in_domain]:.3f} in domain, {row[out_of_domain]:.3f} out of domain"
        print(
            f"seed {row['seed']}: Matthews' correlation {correlations}; {outcome}", file=sys.stderr
        )
        if len(completed) == restarts:
            break
    if not completed:
        raise InfeasibleError(
            f"all {len(degenerate)} restarts are degenerate, giving every sentence one label; "
            "train longer (--epochs), more layers (--layers), or at another --learning-rate"
        )

    ranked = sorted(completed, key=lambda restart: -restart.row[out_of_domain])
    # An odd number of restarts votes, so that there are no ties.
    voters = ranked if len(ranked) % 2 else ranked[:-1]
    record = {
        "kind": "classifier",
        "task": "acceptable or not, after the labels of CoLA",
        "base": base,
        "best": ranked[0].name,
        "majority": [restart.name for restart in voters],
        "mcc": {
            name: _summarise_restarts(ranked, voters, name, parts[name].labels)
            for name in (in_domain, out_of_domain)
        },
        "restarts": [restart.row for restart in completed],
        "degenerate": degenerate,
        "training": {
            **asdict(options),
            "seed": seed,
            "sentences": {name: len(part) for name, part in parts.items()},
            "seconds": round(time.monotonic() - started, 1),
        },
        "versions": package_versions(*PACKAGES),
    }
    members = {restart.name: restart.weights for restart in completed}
    save_trained_networks(out, encoder, members, record, _format_model_card(record))
    store.clear(seeds)
    return record


def _train_restart(
    encoder: Encoder,
    sentences: Mapping[str, fitting.CachedSentences],
    parts: Mapping[str, LabelledSentences],
    options: FitOptions,
    seed: int,
    progress_label: str,
) -> Restart:
    """Train a classifier from one random initialisation, and apply it to the development sets.

    Parameters
    ----------
    encoder
        Encoder to start from.
    sentences
        Tokenised sentences of the training set and of the two development sets, by name of the set.
    parts
        The same sets with their labels.
    options
        Training options.
    seed
        Seed for the initial weights of the head and for the order of the sentences.
    progress_label
        Name of the training in the progress report.
    """
    training_set, *development_sets = PARTS
    # A restart is one training run with its own random seed.
    started = time.monotonic()
    labels = parts[training_set].labels
    classifier, losses = train_classifier(
        encoder, sentences[training_set], labels, options, seed, seed, progress_label
    )
    # On the development sets, a sentence is predicted to be acceptable if its margin, the logit of
    # "acceptable" minus the logit of "unacceptable", is positive.
    margins, mcc = {}, {}
    for name in development_sets:
        margins[name] = score_logits(sentences[name].outputs(classifier), "margin")
        mcc[name] = matthews_correlation(parts[name].labels, margins[name])
    # A degenerate classifier predicts one label for all sentences, so that its Matthews correlation
    # coefficient (MCC) is 0.
    out_of_domain = development_sets[-1]
    # One row of the training record, as JSON values.
    row = {
        "seed": seed,
        **mcc,
        "degenerate": mcc[out_of_domain] == 0.0,
        "losses": losses,
        "seconds": round(time.monotonic() - started, 1),
    }
    return Restart(classifier.trained_weights(), margins, row)


def _summarise_restarts(
    ranked: Sequence[Restart], voters: Sequence[Restart], name: str, labels: IntArray
) -> dict[str, float]:
    """Summarise the Matthews correlations of all restarts on one development set.

    Parameters
    ----------
    ranked
        Restarts, best first.
    voters
        Restarts that vote for the label.
    name
        Name of the development set.
    labels
        Labels of the S sentences in the set, shape (S,).

    Returns
    -------
    dict
        Mean and standard deviation (``sd``) over restarts, and the correlations of the best restart
        and of the majority vote.
    """
    correlations = np.array([restart.row[name] for restart in ranked])
    # The sign of a margin is the label for which a restart votes.
    majority_labels = majority_vote([restart.margins[name] for restart in voters])
    # The restarts are sorted, the best one first.
    return {
        "mean": float(correlations.mean()),
        "sd": float(correlations.std()),
        "best": float(correlations[0]),
        "majority": matthews_correlation(labels, majority_labels),
    }


def _digest_arguments(
    encoder: Encoder, parts: Mapping[str, LabelledSentences], options: FitOptions, device: str
) -> str:
    """Return a digest that identifies the arguments of a fine-tuning, except the seeds.

    Saved training runs are used again only if the digest is unchanged. It covers all parameters of
    this function and the versions of the packages.

    Parameters
    ----------
    encoder
        Encoder before the fine-tuning.
    parts
        Sentences and labels of the training set and of the development sets, by name of the set.
    options
        Training options.
    device
        PyTorch name of the training device.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    network = encoder.network
    # Saved results are used again only if everything that affects the training is the same.
    sentences = {name: [part.sentences, part.labels.tolist()] for name, part in parts.items()}
    return json_digest(
        {
            "encoder": digest_weights(network.state_dict(), encoder.tokenizer, network.config),
            "sentences": sentences,
            "options": asdict(options),
            "device": device,
            "versions": package_versions(*PACKAGES),
        }
    )


def _format_model_card(record: Mapping[str, Any]) -> str:
    """Return the model card of a classifier."""
    n_sentences = record["training"]["sentences"]
    # One row per development set, with Matthews correlations (MCC) over all training runs.
    rows = [
        f"| {name} | {n_sentences[name]} | {mcc['mean']:.3f} | "
        f"{mcc['sd']:.3f} | {mcc['best']:.3f} | {mcc['majority']:.3f} |\n"
        for name, mcc in record["mcc"].items()
    ]
    seeds = ", ".join(str(row["seed"]) for row in record["restarts"])
    degenerate_seeds = ", ".join(str(row["seed"]) for row in record["degenerate"])
    return (
        "# Acceptability classifier\n\n"
        f"Labels: {record['task']}. The score is a judgement, not a probability of the sentence."
        "\n\nMatthews correlation on the development sets. The best restart was chosen by the "
        "second set, so its correlation there is optimistic.\n\n"
        "| set | sentences | mean | sd | best | majority |\n"
        f"| --- | ---: | ---: | ---: | ---: | ---: |\n{''.join(rows)}\n"
        f"Restarts with seeds {seeds}; degenerate and replaced: {degenerate_seeds or 'none'}. "
        f"Majority of {len(record['majority'])}.\n\n"
        f"{describe_training(record)}\n"
    )
