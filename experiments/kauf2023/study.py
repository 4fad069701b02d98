"""What the study measures: scores under every metric, and how they relate to what they should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import pearsonr
from wordfreq import word_frequency

from contstim import load_model
from contstim.benchmarks.pairs import pair_accuracy
from contstim.errors import InputError
from contstim.models import ModelSpec
from contstim.models.base import SentenceModel, TokenScores
from contstim.models.hf.masked import MaskedModel
from contstim.progress import track
from contstim.text import Sentence

#: Metrics of Kauf & Ivanova (2023), Eq. 1 to 4.
PLL_METRICS = ("pll", "pll-word-l2r", "pll-whole-word", "pll-sentence-l2r")
#: Contexts in which words are scored (ibid., appendices B and E.1), by name.
CONTEXTS = {
    "word": "My word is {}",
    "dictionary": "I opened the dictionary and randomly picked a word. It was {}",
    "none": "{}",
}
#: Words of several tokens in the figures of the paper (Figs. 2, 5, 6 and 17).
EXAMPLE_WORDS = ("souvenir", "carnivore", "hooligan")
#: Added to relative frequencies before the logarithm, for words that wordfreq does not know.
SMOOTHING = 1e-9
# Sentences scored between two reports of progress.
_BLOCK = 128


def masked_model(spec: str, orders: int) -> MaskedModel:
    """Load a masked model whose permutation average is an estimate from `orders` orders.

    Averages of up to five words stay exact. Options given in `spec` come first.
    """
    plain = load_model(spec)
    if not isinstance(plain, MaskedModel):
        raise InputError(f"{spec!r} is no masked language model; give one as --model")
    parsed = ModelSpec.parse(spec)
    options = {"exact": "5", "orders": str(orders), **dict(parsed.options)}
    # The two share one network.
    model = load_model(ModelSpec(parsed.family, parsed.location, tuple(sorted(options.items()))))
    assert isinstance(model, MaskedModel)
    return model


def read_events(folder: Path) -> pd.DataFrame:
    """Read the sentences of every ``SET_sentences.csv``: columns `set`, `sentence`."""
    parts = []
    for path in sorted(folder.glob("*_sentences.csv")):
        table = pd.read_csv(path)
        if "Sentence" not in table:
            raise InputError(f"{str(path)!r} has no column 'Sentence'")
        name = path.name.removesuffix("_sentences.csv")
        parts.append(pd.DataFrame({"set": name, "sentence": table["Sentence"].str.strip()}))
    if not parts:
        raise InputError(f"{str(folder)!r} holds no file NAME_sentences.csv")
    return pd.concat(parts, ignore_index=True)


def read_brown(data: Path, n_sentences: int, seed: int) -> pd.DataFrame:
    """Draw sentences of 5 to 20 words of the Brown corpus of nltk: columns `set`, `sentence`.

    The corpus is searched in ``data/nltk_data`` and in the usual folders of nltk.

    Raises
    ------
    InputError
        If nltk does not find the corpus.
    """
    import nltk
    from nltk.corpus import brown
    from nltk.tokenize.treebank import TreebankWordDetokenizer

    nltk.data.path.insert(0, str(data / "nltk_data"))
    try:
        sentences = [words for words in brown.sents() if 5 <= len(words) <= 20]
    except LookupError:
        raise InputError(
            "nltk does not find the Brown corpus; install it by `python -m nltk.downloader brown`, "
            "or set --brown 0"
        ) from None
    chosen = np.random.default_rng(seed).choice(len(sentences), n_sentences, replace=False)
    join = TreebankWordDetokenizer().detokenize
    texts = [join(sentences[i]).replace("``", '"').replace("''", '"') for i in sorted(chosen)]
    return pd.DataFrame({"set": "Brown", "sentence": texts})


def words_of(sentences: Sequence[str]) -> list[str]:
    """Return every word of the sentences, punctuation apart, the first ones in lower case."""
    words = []
    for text in sentences:
        cores = Sentence.parse(text).words
        words += [cores[0].lower(), *cores[1:]]
    return words


def under_metric(model: SentenceModel, metric: str) -> SentenceModel:
    """Return a masked model with another metric."""
    spec = ModelSpec.parse(model.spec)
    options = tuple(sorted({**dict(spec.options), "metric": metric}.items()))
    return load_model(ModelSpec(spec.family, spec.location, options))


def all_parts(
    model: SentenceModel, sentences: Sequence[str], metrics: Sequence[str], label: str
) -> dict[str, dict[str, TokenScores]]:
    """Score each distinct sentence under every metric: from metric to sentence to parts.

    A model that is not masked has one metric, that of its event.
    """
    distinct = list(dict.fromkeys(sentences))
    blocks = [distinct[i : i + _BLOCK] for i in range(0, len(distinct), _BLOCK)]
    found: dict[str, dict[str, TokenScores]] = {}
    for block in track(blocks, len(blocks), label):
        if isinstance(model, MaskedModel):
            scored = {m: under_metric(model, m).score_tokens(block) for m in metrics}
        else:
            scored = {model.event.metric: model.score_tokens(block)}
        for metric, parts in scored.items():
            found.setdefault(metric, {}).update(zip(block, parts, strict=True))
    return found


def _key(model: SentenceModel, metric: str) -> dict[str, str]:
    """Name a model and metric; the options that the study adds are no part of the name."""
    spec = ModelSpec.parse(model.spec)
    kept = tuple((k, v) for k, v in spec.options if k not in ("metric", "exact", "orders"))
    return {"model": str(ModelSpec(spec.family, spec.location, kept)), "metric": metric}


def sentence_table(
    model: SentenceModel, events: pd.DataFrame, metrics: Sequence[str]
) -> pd.DataFrame:
    """Score the sentences: `model, metric, set, sentence, log_prob, n_tokens, n_words`."""
    parts = all_parts(model, list(events["sentence"]), metrics, f"sentences, {model.spec}")
    tables = []
    for metric, by_text in parts.items():
        own = [by_text[text] for text in events["sentence"]]
        tables.append(
            events.assign(
                **_key(model, metric),
                log_prob=[p.log_prob for p in own],
                n_tokens=[len(p.log_probs) for p in own],
                n_words=[p.n_words for p in own],
            )
        )
    columns = ["model", "metric", "set", "sentence", "log_prob", "n_tokens", "n_words"]
    return pd.concat(tables, ignore_index=True)[columns]


def word_table(
    model: SentenceModel, events: pd.DataFrame, metrics: Sequence[str], context: str = "word"
) -> pd.DataFrame:
    """Score every word of the sets in a context of `CONTEXTS`.

    Returns
    -------
    DataFrame
        `model, metric, set, word, n, log_frequency, log_prob, n_tokens`: one row per word of a set,
        `n` how often it occurs there, `log_frequency` the natural logarithm of its relative
        frequency in English.
    """
    counts = pd.concat(
        [
            pd.Series(words_of(list(own["sentence"])), name="word")
            .value_counts()
            .rename("n")
            .reset_index()
            .assign(set=name)
            for name, own in events.groupby("set", sort=False)
        ],
        ignore_index=True,
    )
    texts = [CONTEXTS[context].format(word) for word in counts["word"]]
    parts = all_parts(model, texts, metrics, f"words, {model.spec}")
    frequency = [np.log(word_frequency(word, "en") + SMOOTHING) for word in counts["word"]]
    tables = []
    for metric, by_text in parts.items():
        own = [by_text[text] for text in texts]
        last = [p.word_indices == p.n_words - 1 for p in own]
        tables.append(
            counts.assign(
                **_key(model, metric),
                log_frequency=frequency,
                log_prob=[p.log_probs[at].sum() for p, at in zip(own, last, strict=True)],
                n_tokens=[int(at.sum()) for at in last],
            )
        )
    columns = ["model", "metric", "set", "word", "n", "log_frequency", "log_prob", "n_tokens"]
    return pd.concat(tables, ignore_index=True)[columns]


def context_table(
    models: Sequence[SentenceModel], events: pd.DataFrame, contexts: Sequence[str]
) -> pd.DataFrame:
    """Return the correlation of word frequency with word score by context (appendix E.1).

    Columns: `context`, `model`, `metric`, `set`, `r`, `n`.
    """
    rows = []
    for context in contexts:
        words = pd.concat([word_table(m, events, PLL_METRICS, context) for m in models])
        for key, group in words.groupby(["model", "metric", "set"], sort=False):
            r, _, _, n = _pearson(group["log_frequency"], group["log_prob"])
            rows.append((context, *key, r, n))
    return pd.DataFrame(rows, columns=["context", "model", "metric", "set", "r", "n"])


def example_table(model: SentenceModel, sentences: Sequence[str]) -> pd.DataFrame:
    """Score the tokens of example words in the first sentence that contains each of them.

    Columns: `model`, `metric`, `word`, `token` (number within the word) and `log_prob`. Words that
    occur in no sentence are left out.
    """
    rows = []
    for word in EXAMPLE_WORDS:
        text = next((s for s in sentences if word in s.rstrip(".").lower().split()), None)
        if text is None:
            continue
        index = text.rstrip(".").lower().split().index(word)
        for metric, parts in all_parts(model, [text], PLL_METRICS, f"example, {word}").items():
            log_probs = parts[text].log_probs[parts[text].word_indices == index]
            key = _key(model, metric).values()
            rows += [(*key, word, n, value) for n, value in enumerate(log_probs, start=1)]
    return pd.DataFrame(rows, columns=["model", "metric", "word", "token", "log_prob"])


def published_correlations(folder: Path) -> pd.DataFrame:
    """Correlate the published scores of masked models with the scores of gpt2-xl (Fig. 14).

    Columns: `set`, `model`, `r`, `n`.
    """
    rows = []
    for path in sorted(folder.glob("*_published_model_scores.csv.gz")):
        scores = pd.read_csv(path)
        for name in (column for column in scores if "PLL" in column):
            pair = scores[["gpt2-xl.sentence-LL", name]].dropna()
            r, _, _, n = _pearson(pair.iloc[:, 0], pair.iloc[:, 1])
            rows.append((path.name.partition("_")[0], name, r, n))
    return pd.DataFrame(rows, columns=["set", "model", "r", "n"])


def split_ratio(words: pd.DataFrame) -> pd.DataFrame:
    """Return the share of words in running text that a model cuts into two tokens or more."""
    first = words.drop_duplicates(["model", "set", "word"])
    several = first.assign(split=first["n"] * (first["n_tokens"] > 1))
    sums = several.groupby(["model", "set"], sort=False)[["split", "n"]].sum()
    return (sums["split"] / sums["n"]).rename("split_ratio").reset_index()


def correlations(
    sentences: pd.DataFrame, words: pd.DataFrame, causal: pd.DataFrame
) -> pd.DataFrame:
    """Return Pearson's r of scores with what they should go with, and its 95 % interval.

    Parameters
    ----------
    sentences, words
        As `sentence_table` and `word_table` give them.
    causal
        The causal model's `sentence_table`.

    Returns
    -------
    DataFrame
        `model, metric, set, relation, r, ci_low, ci_high, n`. Relations: `length_tokens` and
        `length_words` (with the negative score of a sentence), `frequency` (of a word with its
        score), `causal` (of a sentence's score with the causal model's).
    """
    reference = causal.drop_duplicates("sentence").set_index("sentence")["log_prob"]
    rows = []
    for key, own in sentences.groupby(["model", "metric", "set"], sort=False):
        scores = own["log_prob"].to_numpy()
        pairs = {"length_tokens": (own["n_tokens"], -scores)}
        pairs["length_words"] = (own["n_words"], -scores)
        if key[0] != causal["model"].iloc[0]:
            pairs["causal"] = (own["sentence"].map(reference), scores)
        rows += [(*key, name, *_pearson(x, y)) for name, (x, y) in pairs.items()]
    for key, own in words.groupby(["model", "metric", "set"], sort=False):
        rows.append((*key, "frequency", *_pearson(own["log_frequency"], own["log_prob"])))
    columns = ["model", "metric", "set", "relation", "r", "ci_low", "ci_high", "n"]
    return pd.DataFrame(rows, columns=columns)


def _pearson(x: pd.Series, y: object) -> tuple[float, float, float, int]:
    """Give r, its interval and n; unknown (NaN) where one of the two does not vary."""
    one, two = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    # Fisher's interval needs four points.
    if len(one) < 4 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return np.nan, np.nan, np.nan, len(one)
    found = pearsonr(one, two)
    interval = found.confidence_interval()
    return found.statistic, interval.low, interval.high, len(one)


def blimp_table(model: SentenceModel, pairs: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return accuracy on each paradigm under every metric, with `model` and `metric`."""
    texts = [*pairs["sentence_good"], *pairs["sentence_bad"]]
    parts = all_parts(model, texts, metrics, f"BLiMP, {model.spec}")
    tables = []
    for metric, by_text in parts.items():
        scores = {text: p.log_prob for text, p in by_text.items()}
        table = pair_accuracy(pairs, lambda asked, s=scores: [s[text] for text in asked])
        tables.append(table.assign(**_key(model, metric)))
    return pd.concat(tables, ignore_index=True)


def by_term(blimp: pd.DataFrame) -> pd.DataFrame:
    """Return the mean accuracy over the paradigms of each category, and of all (`overall`)."""
    keys = ["model", "metric", "term"]
    sums: Mapping[str, tuple[str, str]] = {
        "accuracy": ("accuracy", "mean"),
        "n_paradigms": ("paradigm", "size"),
        "n_pairs": ("n_pairs", "sum"),
        "n_tied": ("n_tied", "sum"),
    }
    parts = [blimp.assign(term="overall"), blimp]
    return pd.concat(
        [part.groupby(keys, sort=False).agg(**sums).reset_index() for part in parts],
        ignore_index=True,
    )
