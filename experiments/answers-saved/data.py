"""Choices of participants between two sentences, from five published data sets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from contstim.arrays import IntArray

_SEED = 1
_LAU_PAIRS, _EVENT_PAIRS, _SPROUSE_PAIRS, _MIN_RATERS = 500, 500, 400, 20


@dataclass(frozen=True, eq=False)
class Choices:
    """Choices of participants between the two sentences of each of P pairs.

    Attributes
    ----------
    pairs : (P,) DataFrame
        Columns `sentence_1` and `sentence_2`, and `item_1` and `item_2`, the items of the sentences
        by which data are resampled.
    participant, pair, second : (n,) array
        Participant, pair, and choice (1 for sentence 2, 0 for sentence 1) of each answer.
    """

    pairs: pd.DataFrame
    participant: IntArray
    pair: IntArray
    second: IntArray


def read_choices(name: str, data: Path) -> Choices:
    """Read a data set by name; `data` is the folder with the published files."""
    table = READERS[name](data)
    # Sentences are in random order, so that sentence 1 is not always the grammatical one.
    ordered = table[["sentence_1", "sentence_2"]].to_numpy()
    keys = pd.MultiIndex.from_arrays(np.sort(ordered.astype(str), axis=1).T)
    pair, unique = keys.factorize()
    rng = np.random.default_rng(_SEED)
    swapped = rng.random(len(unique)) < 0.5
    first, second = (np.array(unique.get_level_values(k), dtype=object) for k in (0, 1))
    pairs = pd.DataFrame(
        {"sentence_1": np.where(swapped, second, first)}
        | {"sentence_2": np.where(swapped, first, second)}
    )
    items = pd.DataFrame(
        {"sentence": ordered.T.ravel(), "item": table[["item_1", "item_2"]].to_numpy().T.ravel()}
    )
    item = items.drop_duplicates("sentence").set_index("sentence")["item"]
    for k in (1, 2):
        pairs[f"item_{k}"] = item.loc[pairs[f"sentence_{k}"]].to_numpy()
    chosen = table["chosen"].to_numpy()
    is_second = (chosen == pairs["sentence_2"].to_numpy()[pair]).astype(np.int64)
    participant = pd.factorize(table["participant"])[0]
    return Choices(pairs, participant, pair.astype(np.int64), is_second)


def _choice_table(
    participant: pd.Series, first: pd.Series, second: pd.Series, chosen: pd.Series, item: pd.Series
) -> pd.DataFrame:
    """Return a table of choices whose sentences belong to the same item."""
    columns = {"participant": participant, "sentence_1": first, "sentence_2": second}
    return pd.DataFrame(columns | {"chosen": chosen, "item_1": item, "item_2": item})


def _read_blimp(data: Path) -> pd.DataFrame:
    """Read the choices that validated BLiMP; items are paradigms."""
    raw = pd.read_csv(data / "blimp" / "human_forced_choice.csv.gz")
    chosen = raw["sentence_1"].where(raw["chosen"] == 1, raw["sentence_2"])
    return _choice_table(
        raw["rater"], raw["sentence_1"], raw["sentence_2"], chosen, raw["condition"]
    )


def _read_sprouse(data: Path) -> pd.DataFrame:
    """Read the forced choices of Sprouse et al. on random pairs; items are phenomena."""
    raw = pd.read_csv(data / "sprouse2013" / "forced_choice_trials.csv.gz")
    raw = raw.dropna(subset=["bad_sentence", "good_sentence"])
    raw = raw[raw["bad_sentence"] != raw["good_sentence"]]
    rng = np.random.default_rng(_SEED)
    ids = rng.choice(raw["bad_id"].unique(), _SPROUSE_PAIRS, replace=False)
    raw = raw[raw["bad_id"].isin(ids)]
    chosen = raw["good_sentence"].where(raw["chose_good"] == 1, raw["bad_sentence"])
    # Identifiers such as 35.1.mcginnis.32b.*.01 begin with the phenomenon.
    phenomenon = raw["bad_id"].str.split(r"\.[*g?]", regex=True).str[0]
    return _choice_table(
        raw["participant"], raw["bad_sentence"], raw["good_sentence"], chosen, phenomenon
    )


def _read_golan(data: Path) -> pd.DataFrame:
    """Read the choices between synthetic sentences of Golan et al.; items are pairs."""
    raw = pd.read_csv(data / "golan2023" / "behavior_nov2022_raw.csv")
    raw = raw[raw["sentence1_type"].isin(["S1", "S2"])]
    is_left = raw["Zone Name"].isin(["resp1", "resp2", "resp3"])
    chosen = raw["sentence1"].where(is_left, raw["sentence2"])
    item = pd.Series(
        np.minimum(raw["sentence1"], raw["sentence2"])
        + np.maximum(raw["sentence1"], raw["sentence2"]),
        raw.index,
    )
    return _choice_table(raw["subject"], raw["sentence1"], raw["sentence2"], chosen, item)


def _read_lau(data: Path) -> pd.DataFrame:
    """Compare ratings of random pairs of sentences by different participants."""
    raw = pd.read_csv(data / "lau2020" / "context-none-ratings.csv")
    rng = np.random.default_rng(_SEED)
    ratings = [rng.permutation(np.array(r.split(","), dtype=float)) for r in raw["full-ratings"]]
    sentences = raw["sentence"].to_list()
    every_pair = np.array(list(combinations(range(len(sentences)), 2)))
    rows = []
    for a, b in rng.choice(every_pair, _LAU_PAIRS, replace=False):
        for k, (x, y) in enumerate(zip(ratings[a], ratings[b], strict=False)):
            if x != y:
                rows.append((k, sentences[a], sentences[b], sentences[a if x > y else b]))
    table = pd.DataFrame(rows, columns=["participant", "sentence_1", "sentence_2", "chosen"])
    return table.assign(item_1=table["sentence_1"], item_2=table["sentence_2"])


def _read_events(data: Path) -> pd.DataFrame:
    """Compare ratings of two sentences by the same participant."""
    raw = pd.read_csv(data / "events" / "EventsAdapt_human_ratings.csv.gz")
    raw = raw.drop_duplicates(["participant", "Sentence"])
    item = raw.drop_duplicates("Sentence").set_index("Sentence")["ItemNum"]
    wide = raw.pivot_table("Score", "participant", "Sentence")
    values, sentences = wide.to_numpy(), wide.columns.to_numpy()
    is_rated = np.isfinite(values).astype(np.int64)
    common = np.argwhere(np.triu(is_rated.T @ is_rated, 1) >= _MIN_RATERS)
    common = common[
        item.loc[sentences[common[:, 0]]].array != item.loc[sentences[common[:, 1]]].array
    ]
    rng = np.random.default_rng(_SEED)
    parts = []
    for a, b in rng.choice(common, _EVENT_PAIRS, replace=False):
        x, y = values[:, a], values[:, b]
        who = np.flatnonzero(np.isfinite(x) & np.isfinite(y) & (x != y))
        chosen = np.where(x[who] > y[who], sentences[a], sentences[b])
        pair = {"sentence_1": sentences[a], "sentence_2": sentences[b]}
        items = {"item_1": item[sentences[a]], "item_2": item[sentences[b]]}
        parts.append(pd.DataFrame({"participant": who, "chosen": chosen}).assign(**pair, **items))
    return pd.concat(parts, ignore_index=True)


READERS = {
    "golan": _read_golan,
    "blimp": _read_blimp,
    "lau": _read_lau,
    "events": _read_events,
    "sprouse": _read_sprouse,
}


def published_scores(name: str, data: Path) -> pd.DataFrame | None:
    """Return published scores of the sentences of a data set, if any; higher is better."""
    if name == "events":
        scores = pd.read_csv(data / "events" / "EventsAdapt_published_model_scores.csv.gz")
        scores = scores.drop_duplicates("Sentence").set_index("Sentence")
        return scores.set_axis([str(c).removesuffix(".surprisal_scores") for c in scores], axis=1)
    if name == "golan":
        raw = pd.read_csv(data / "golan2023" / "behavior_nov2022_raw.csv")
        sides = []
        for k in (1, 2):
            columns = [c for c in raw if c.startswith(f"sentence{k}_") and c.endswith("_prob")]
            names = [c.removeprefix(f"sentence{k}_").removesuffix("_prob") for c in columns]
            sides.append(raw.set_index(f"sentence{k}")[columns].set_axis(names, axis=1))
        scores = pd.concat(sides)
        return scores[~scores.index.duplicated()]
    return None
