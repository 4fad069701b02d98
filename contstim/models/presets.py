"""The models of published studies as specs, scored as the papers describe.

Where a paper's code departs from its text, the text is followed and the departure named, so that
a figure that does not come out alike can be traced. Checkpoints are named as on the Hugging Face
hub today.
"""

from __future__ import annotations

from dataclasses import dataclass

from contstim.errors import require_known
from contstim.models import ModelSpec


@dataclass(frozen=True)
class PresetModel:
    """One model of a study.

    Attributes
    ----------
    name
        What the study calls it.
    spec
        The spec that scores as the study describes.
    checkpoint
        The published weights, where they are to be had.
    revision
        The revision of the checkpoint on the hub; empty where the weights are not on the hub.
        The studies name none.
    notes
        What differs from the study's own code or weights, one sentence each.
    """

    name: str
    spec: str
    checkpoint: str
    revision: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """A study: its source, its models, and what holds for all of them."""

    name: str
    source: str
    models: tuple[PresetModel, ...]
    notes: tuple[str, ...] = ()

    @property
    def specs(self) -> dict[str, str]:
        """Name to spec of each model."""
        return {model.name: model.spec for model in self.models}


def _on_hub(
    name: str,
    checkpoint: str,
    options: dict[str, str],
    notes: tuple[str, ...] = (),
) -> PresetModel:
    pairs = tuple(sorted({**options, "revision": "main"}.items()))
    return PresetModel(name, str(ModelSpec("hf", checkpoint, pairs)), checkpoint, "main", notes)


_PERMUTATION = {"metric": "permutation", "restricted": "yes", "punctuation": "context"}
_ZENODO = "Zenodo record 6403789"
_STAND_IN = (
    "A model of the same kind that comes with contstim stands in: the published weights are "
    "bound to a pickled word table, and were trained on other text.",
)

_GOLAN = Preset(
    "golan2023",
    "Golan, Siegelman, Kriegeskorte & Baldassano (2023), sections 4.2, 4.3 and 6.1",
    (
        _on_hub(
            "GPT-2",
            "openai-community/gpt2-xl",
            {},
            (
                "The paper sums token log-probabilities and does not say what stands first; here "
                "it is <|endoftext|>.",
                "Its code puts '. ' before the sentence and does not score it, which makes the "
                "first word a spaced token (prefix=.&first=spaced).",
                "Its code normalises each token over its own class, word-starting or not, which "
                "leaves the choice between the two free.",
            ),
        ),
        _on_hub(
            "RoBERTa",
            "FacebookAI/roberta-large",
            {**_PERMUTATION, "first": "spaced"},
            ("In its code the final period is the spaced token of a lone period.",),
        ),
        _on_hub("ELECTRA", "google/electra-large-generator", _PERMUTATION),
        _on_hub("BERT", "google-bert/bert-large-cased", _PERMUTATION),
        _on_hub(
            "XLM",
            "FacebookAI/xlm-mlm-en-2048",
            _PERMUTATION,
            (
                "In its code a last word taken for an abbreviation swallows the period, and the "
                "score is minus infinity; here it is an ordinary score.",
                "Its tokenizer needs the package sacremoses.",
            ),
        ),
        PresetModel("LSTM", "contstim:lstm", _ZENODO, "", _STAND_IN),
        PresetModel("RNN", "contstim:rnn", _ZENODO, "", _STAND_IN),
        PresetModel(
            "3-gram",
            "contstim:trigram",
            _ZENODO,
            "",
            (
                *_STAND_IN,
                "The published scores lie near the floor of their 16-bit storage, and the 3-gram "
                "alone scores an end symbol after the period.",
            ),
        ),
        PresetModel("2-gram", "contstim:bigram", _ZENODO, "", _STAND_IN),
    ),
    (
        "The mean over word orders is exact for up to ten words; the paper samples 100 orders of "
        "eight words, its code 500 until October 2022.",
        "Each token is normalised over the tokens that may stand in its place in a word (section "
        "4.2, four distributions); the code knows two classes and leaves two positions a sentence "
        "over the whole vocabulary.",
        "In the code, words of several tokens that are hidden together with an earlier such word "
        "are read off the wrong rows.",
        "The code adds the log-probability of the final period given all words; the paper does "
        "not mention it, and here the period is context.",
        "Sentences are given with their final period.",
    ),
)

_KAUF_METRICS = ("pll", "pll-word-l2r", "pll-whole-word")
_KAUF = Preset(
    "kauf2023",
    "Kauf & Ivanova (2023), sections 3.1 and 3.2, appendix B",
    (
        *(
            _on_hub(f"{name}, {metric}", checkpoint, {"metric": metric})
            for name, checkpoint in (
                ("BERT (base)", "google-bert/bert-base-cased"),
                ("BERT (large)", "google-bert/bert-large-cased"),
                ("RoBERTa (base)", "FacebookAI/roberta-base"),
                ("RoBERTa (large)", "FacebookAI/roberta-large"),
            )
            for metric in _KAUF_METRICS
        ),
        _on_hub("GPT2-medium", "openai-community/gpt2-medium", {}),
    ),
    (
        "A word is what stands between white space; their code takes the pre-tokenizer's pieces, "
        "to which a contraction is several words and a final mark one of its own.",
        "Under pll-sentence-l2r (appendix G, not among these) their code hides the closing special "
        "token too.",
    ),
)

_SALAZAR = Preset(
    "salazar2020",
    "Salazar, Liang, Nguyen & Kirchhoff (2020), section 4.1",
    (
        *(
            _on_hub(name, checkpoint, {"metric": "pll"})
            for name, checkpoint in (
                ("BERT (base)", "google-bert/bert-base-cased"),
                ("BERT (large)", "google-bert/bert-large-cased"),
                ("RoBERTa (base)", "FacebookAI/roberta-base"),
                ("RoBERTa (large)", "FacebookAI/roberta-large"),
            )
        ),
        _on_hub("GPT-2 (345M)", "openai-community/gpt2-medium", {}),
    ),
    ("Their code gives a sentence that is too long the score 0; here it is refused.",),
)

#: Presets by name.
METRIC_PRESETS: dict[str, Preset] = {p.name: p for p in (_GOLAN, _KAUF, _SALAZAR)}


def preset(name: str) -> Preset:
    """Return the preset called `name`.

    Raises
    ------
    UnknownNameError
        If there is none; near matches are named.
    """
    require_known("preset", name, METRIC_PRESETS)
    return METRIC_PRESETS[name]
