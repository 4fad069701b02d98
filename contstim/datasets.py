"""Bundled example tables: scores, triplets and choices of simulated participants.

The script ``experiments/datasets/make.py`` of the repository reproduces them.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import pandas as pd

from contstim.tables import read_table

__all__ = ["FOLLOWED_MODEL", "natural_scores", "readable_triplets", "simulated_choices"]

#: The model that the simulated participants of `simulated_choices` follow.
FOLLOWED_MODEL = "contstim:gpt"


def natural_scores() -> pd.DataFrame:
    """Return log-probabilities of the 724 bundled natural sentences under six models.

    Returns
    -------
    DataFrame
        Log-probabilities in nats, shape (724, 6), indexed by sentence. The columns are five bundled
        models and SmolLM2, for example ``contstim:gpt``.

    Examples
    --------
    >>> natural_scores()[["contstim:bigram", "contstim:gpt"]].head(2).round(1)
                                                  contstim:bigram  contstim:gpt
    sentence
    The curtains she chose were much too dark.              -52.7         -45.4
    Nobody wanted to work under the new foreman.            -47.2         -46.9
    """
    return _read("natural_scores.csv").set_index("sentence").astype(float)


def readable_triplets() -> pd.DataFrame:
    """Return 35 readable triplets for two pairs of bundled models, sampled from SmolLM2.

    A triplet consists of a natural sentence and two synthetic sentences. The two models disagree
    about which of the synthetic sentences is more probable.

    Returns
    -------
    DataFrame
        One row per triplet with the columns :data:`contstim.columns.TRIPLETS`: 18 triplets for the
        bigram and the trigram model, 17 for the trigram model and the GPT.

    Examples
    --------
    >>> readable_triplets()["synthetic_1"].iloc[1]
    'I am afraid of my brother and mother in law.'
    >>> readable_triplets()["synthetic_2"].iloc[1]
    'In my youth I was afraid of snakes and spiders too.'
    """
    return _read("triplets.csv")


def simulated_choices() -> pd.DataFrame:
    """Return the choices of 30 simulated participants, who follow ``contstim:gpt`` with noise.

    Returns
    -------
    DataFrame
        Table of choices for `evaluate`, with one row per trial and participant: six groups of five
        participants, with the triplets of `readable_triplets`, natural pairs and catch trials.

    Examples
    --------
    >>> simulated_choices()[["participant", "trial", "condition", "rating"]].head(2)
       participant  trial               condition  rating
    0            1      1  natural_vs_synthetic_1    -0.5
    1            1      2   natural_controversial     1.5
    """
    return _read("choices.csv")


def _read(name: str) -> pd.DataFrame:
    with as_file(files("contstim") / "data" / name) as path:
        return read_table(path, cells="inferred")
