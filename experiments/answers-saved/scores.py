"""Train two n-gram models and score the sentences of all data sets; part of `run.py`."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from data import Choices, published_scores, read_choices

from contstim import load_model
from contstim.models.reductions import ReducedModel

#: Models of all data sets by name; `{out}` is the folder of results.
MODELS = {
    "bigram": "contstim:bigram?unknown=unk",
    "trigram": "contstim:trigram?unknown=unk",
    "corpus-2": "ngram:{out}/corpus-2.arpa.gz?punctuation=split&unknown=unk",
    "corpus-4": "ngram:{out}/corpus-4.arpa.gz?punctuation=split&unknown=unk",
    "rnn": "contstim:rnn?unknown=unk",
    "lstm": "contstim:lstm?unknown=unk",
    "lstm-slor": "contstim:lstm?unknown=unk&reduction=slor",
    "gpt": "contstim:gpt",
    "gpt-slor": "contstim:gpt?reduction=slor",
    "bert": "contstim:bert?unknown=unk",
    "bert-slor": "contstim:bert?unknown=unk&reduction=slor",
    "smollm2": "contstim:smollm2",
    "smollm2-slor": "contstim:smollm2?reduction=slor",
}


def models_of(name: str) -> dict[str, str]:
    """Return the models that score a data set; `events` has published scores of larger models."""
    return {m: spec for m, spec in MODELS.items() if name != "events" or "smollm2" not in m}


def train_ngrams(corpus: Path, out: Path) -> None:
    """Train n-gram models of orders 2 and 4 on the corpus, unless they exist."""
    for order in (2, 4):
        target = out / f"corpus-{order}.arpa.gz"
        if target.exists():
            continue
        text = out / "corpus.txt"
        text.write_bytes(gzip.decompress((corpus / "train.txt.gz").read_bytes()))
        options = ["--order", str(order), "--punctuation", "split", "--min-count", "2"]
        command = ["contstim", "models", "train", "ngram", str(text), *options]
        subprocess.run([sys.executable, "-m", *command, "--out", str(target)], check=True)  # noqa: S603
        text.unlink()


def score_missing(name: str, data: Path, out: Path) -> None:
    """Score a data set; each model has a file in the folder `scores` of the results."""
    folder = out / "scores"
    folder.mkdir(parents=True, exist_ok=True)
    sentences = sentences_of(read_choices(name, data))
    for model_name, spec in models_of(name).items():
        file = folder / f"{name}-{model_name}.csv"
        if file.exists():
            continue
        start, model = time.process_time(), load_model(spec.format(out=out))
        if isinstance(model, ReducedModel) and model.unigram is not None:
            # SLOR from the scores without a reduction, which precede it in `MODELS`.
            full = folder / f"{name}-{model_name.removesuffix('-slor')}.csv"
            scores = pd.read_csv(full, keep_default_na=False).set_index("sentence").loc[sentences]
            scores = scores.reset_index()
            unigram = [words.sum() for words in model.unigram.score_words(sentences)]
            scores["score"] = (scores["score"] - unigram) / scores["n_tokens"]
        else:
            counted = model.score_with_counts(sentences)
            columns = {"score": counted.score, "n_tokens": counted.n_tokens}
            scores = pd.DataFrame({"sentence": sentences} | columns)
        scores.to_csv(file, index=False)
        print(f"{name}, {model_name}: {time.process_time() - start:.0f} s", flush=True)


def sentences_of(choices: Choices) -> list[str]:
    """Return the sentences of a data set, each once."""
    return list(dict.fromkeys(choices.pairs[["sentence_1", "sentence_2"]].to_numpy().T.ravel()))


def read_scores(name: str, data: Path, out: Path, choices: Choices) -> pd.DataFrame:
    """Read scores of a data set, one row per sentence and one column per model.

    Models that prefer the same sentence of every pair as an earlier model are left out.
    """
    sentences = sentences_of(choices)
    columns = {}
    for model_name in models_of(name):
        table = pd.read_csv(out / "scores" / f"{name}-{model_name}.csv", keep_default_na=False)
        columns[model_name] = table.set_index("sentence")["score"].astype(float).loc[sentences]
    scores = pd.DataFrame(columns)
    published = published_scores(name, data)
    if published is not None:
        scores = scores.join(published.add_prefix("published "))
    sides = [scores.loc[choices.pairs[f"sentence_{k}"]].to_numpy() for k in (1, 2)]
    _, first = np.unique(np.sign(sides[1] - sides[0]), axis=1, return_index=True)
    return scores.iloc[:, np.sort(first)]
