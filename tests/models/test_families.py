"""`check_model` for every model family and option.

Tests `contstim.models.base` and `contstim.models.toy`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from contstim import check_model, load_model, synthesize
from contstim.errors import InputError, UnknownWordError
from contstim.models.hf.options import MaskedEvent
from contstim.models.recurrent import NetworkConfig
from contstim.models.registry import FAMILIES as REGISTERED
from contstim.models.registry import bundled_models, score_kind
from contstim.models.toy import check_normalisation
from contstim.text import Sentence, WordList
from contstim.text.vocabulary import Vocabulary
from contstim.training.ngram import NgramVocabulary, train_ngram
from contstim.training.options import TrainingOptions
from contstim.training.recurrent import train_recurrent

TOY = ["a", "b", "c"]
SENTENCES = [
    "The dog saw a cat.",
    "A cat, said the dog, ran!",
    "Dogs don't see the red cat.",
    '"The cat ran -- and ran."',
    "The dog ran.",
]
FAMILIES = ["bigram", "trigram", "fivegram", "rnn", "lstm"]
OPTIONS = ["", "&case=lower", "&end=none", "&unknown=unk", "&reduction=mean", "&reduction=pen"]


def _train(family: str, text: Path, out: Path, punctuation: str, *, closed: bool) -> str:
    orders = {"bigram": 2, "trigram": 3, "fivegram": 5}
    if family in orders:
        path = out / f"{family}.arpa.gz"
        train_ngram(
            text,
            path,
            order=orders[family],
            punctuation=punctuation,
            fallback=(0.5, 1.0, 1.5),
            vocabulary=NgramVocabulary(closed=closed),
        )
        return f"ngram:{path}"
    path = out / f"{family}.safetensors"
    train_recurrent(
        [text],
        path,
        config=NetworkConfig(family, embedding=5, hidden=6),
        options=TrainingOptions(epochs=2, full_epochs=1),
        min_count=1,
        heldout_share=0.2,
        punctuation=punctuation,
        progress=False,
    )
    return f"{family}:{path}"


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny models of every family, trained on the sentences in both cases."""
    folder = tmp_path_factory.mktemp("families")
    text = folder / "text.txt"
    both = [*SENTENCES, *(sentence.lower() for sentence in SENTENCES)] * 3
    text.write_text("\n".join(both) + "\n", "utf-8")
    return {
        family: _train(family, text, folder, "split", closed=False) + "?punctuation=split"
        for family in FAMILIES
    }


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Models of the toy language; the networks have an unknown-word class besides its words."""
    folder = tmp_path_factory.mktemp("toys")
    text = folder / "toy.txt"
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(TOY, p=[0.5, 0.3, 0.2], size=n)) for n in rng.integers(1, 6, 80)]
    text.write_text("\n".join(lines) + "\n", "utf-8")
    return {family: _train(family, text, folder, "keep", closed=True) for family in FAMILIES}


@pytest.mark.parametrize(("family", "option"), list(itertools.product(FAMILIES, OPTIONS)))
def test_families_pass_check_model_with_all_options(
    specs: dict[str, str], family: str, option: str
) -> None:
    model = load_model(specs[family] + option)
    assert len(check_model(model, SENTENCES)) == 5
    again = load_model(model.spec)
    assert again.spec == model.spec
    assert again.event == model.event
    assert again.fingerprint == model.fingerprint
    np.testing.assert_array_equal(again.score(SENTENCES), model.score(SENTENCES))


@pytest.fixture
def specs_by_family(
    specs: dict[str, str],
    tiny: Callable[[str], Path],
    student: Path,
    classifier: Path,
) -> dict[str, list[str]]:
    """Specs of models of every registered family."""
    return {
        "contstim": ["contstim:bigram"],
        "ngram": [specs["trigram"]],
        "rnn": [specs["rnn"]],
        "lstm": [specs["lstm"]],
        "hf": [f"hf:{tiny('gpt2')}", f"hf:{tiny('bert')}?metric=pll", f"hf:{tiny('roberta')}"],
        "student": [f"student:{student}"],
        "classifier": [f"classifier:{classifier}", f"classifier:{classifier}?output=margin"],
    }


# A table scores no sentences but its own, so that nothing is searched with it: test_score_table.py.
# `tests/models/engines` checks engines, against servers and with llama.cpp.
@pytest.mark.parametrize("family", sorted({*REGISTERED} - {"table", "openai", "gguf"}))
def test_registered_families_pass_check_model(
    specs_by_family: dict[str, list[str]], specs: dict[str, str], family: str
) -> None:
    words = Vocabulary(
        WordList.from_words(["The", "A"]), WordList.from_words(["dog", "cat", "saw", "ran", "a"])
    )
    other = load_model(specs["fivegram"])
    sentences = [sentence for sentence in SENTENCES if '"' not in sentence]  # no tiny token
    for spec in specs_by_family[family]:
        model = load_model(spec)
        assert len(check_model(model, sentences)) == 5
        again = load_model(model.spec)
        assert (again.spec, again.event, again.fingerprint) == (
            model.spec,
            model.event,
            model.fingerprint,
        )
        scores = model.score(sentences)
        np.testing.assert_array_equal(again.score(sentences), scores)
        # What tables say of a model that they do not load.
        assert score_kind(spec) == model.kind
        assert scores.max() <= model.kind.highest
        for reject, accept in ((model, other), (other, model)):
            found = synthesize(SENTENCES[0], reject=reject, accept=accept, vocabulary=words)
            texts = [found.natural, found.sentence]
            natural, synthetic = accept.score(texts)
            assert synthetic >= natural
            assert np.diff(reject.score(texts))[0] == pytest.approx(found.loss, abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_of_all_strings_sum_to_one(toys: dict[str, str], family: str) -> None:
    words = TOY if family.endswith("gram") else [*TOY, "neverseen"]
    closed = load_model(toys[family] + "?unknown=unk" * (len(words) > len(TOY)))
    opened = load_model(toys[family] + "?end=none" + "&unknown=unk" * (len(words) > len(TOY)))
    check_normalisation(closed, opened, words, length=3)


@pytest.mark.parametrize("family", FAMILIES)
def test_punctuation_case_and_contractions_within_words(specs: dict[str, str], family: str) -> None:
    model = load_model(specs[family])
    (parts,) = model.score_tokens([SENTENCES[2]])
    assert parts.tokens == ("Dogs", "don't", "see", "the", "red", "cat", ".", "</s>")
    assert parts.word_indices.tolist() == [0, 1, 2, 3, 4, 5, 5, 5]
    lower, plain = load_model(specs[family] + "&case=lower"), SENTENCES[0].lower()
    assert lower.score([SENTENCES[0]])[0] == pytest.approx(model.score([plain])[0], abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_words_are_rejected_or_scored_as_unk(specs: dict[str, str], family: str) -> None:
    model = load_model(specs[family])
    with pytest.raises(UnknownWordError) as error:
        model.score(["The zebra ran."])
    assert str(error.value) == (
        f"{model.spec} does not know 'zebra' in 'The zebra ran.'; leave the sentence out, use a "
        "model trained with the word, or set unknown=unk"
    )
    with pytest.raises(UnknownWordError) as error:
        load_model(keeping := specs[family].replace("=split", "=keep")).score(["The cat, slept."])
    assert str(error.value) == (
        f"{load_model(keeping).spec} does not know 'cat,' in 'The cat, slept.', but it knows "
        "'cat'; set punctuation=split or punctuation=drop, as in the model's training"
    )
    known = model.in_vocabulary(["zebra", "cat", "cat.", "Cat"])
    assert known.tolist() == [False, True, True, False]
    lenient = load_model(specs[family] + "&unknown=unk")
    scores = lenient.score(["The zebra ran.", "The okapi ran.", "The dog ran."])
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    assert scores[2] == pytest.approx(model.score(["The dog ran."])[0], abs=1e-5)
    assert not lenient.in_vocabulary(["zebra"])[0]


@pytest.mark.parametrize("family", ["trigram", "lstm"])
def test_tilde_in_a_path_is_expanded(
    specs: dict[str, str], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(specs[family])
    kind, _, rest = specs[family].partition(":")
    path, _, options = rest.partition("?")
    monkeypatch.setenv("HOME", str(Path(path).parent))
    at_home = load_model(f"{kind}:~/{Path(path).name}?{options}")
    assert at_home.fingerprint == model.fingerprint


@pytest.mark.parametrize("family", FAMILIES)
def test_positions_outside_the_sentence_are_rejected(specs: dict[str, str], family: str) -> None:
    model, words = load_model(specs[family]), WordList.from_words(["dog"])
    for position in (-1, 5):
        with pytest.raises(InputError) as error:
            model.score_replacements(Sentence.parse(SENTENCES[0]), position, words)
        assert str(error.value) == (
            f"position {position} is outside the 5 words of 'The dog saw a cat.'"
        )


@pytest.mark.parametrize(("one", "two"), list(itertools.pairwise(FAMILIES)))
def test_synthesize_with_pairs_of_families(specs: dict[str, str], one: str, two: str) -> None:
    words = Vocabulary(
        WordList.from_words(["The", "A", "Dogs"]),
        WordList.from_words(
            ["dog", "cat", "saw", "ran", "a", "the", "red", "see", "said", "zebra"]
        ),
    )
    reject, accept = load_model(specs[one]), load_model(specs[two])
    for strategy in ("edit?candidates=all", "edit"):
        found = synthesize(
            SENTENCES[0], reject=reject, accept=accept, vocabulary=words, strategy=strategy
        )
        texts = [found.natural, found.sentence]
        natural, synthetic = accept.score(texts)
        assert synthetic >= natural
        assert np.diff(reject.score(texts))[0] == pytest.approx(found.loss, abs=1e-4)
        assert "zebra" not in found.sentence


def test_option_punctuation_keep(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("the dog ran.\nthe cat ran.\n" * 5)
    spec = _train("trigram", text, tmp_path, "keep", closed=False)
    model = load_model(spec)
    (parts,) = model.score_tokens(["the dog ran."])
    assert parts.tokens == ("the", "dog", "ran.", "</s>")
    assert model.in_vocabulary(["ran", "ran."]).tolist() == [False, True]


@pytest.mark.parametrize(
    "name", [entry.name for entry in bundled_models().values() if not entry.converter]
)
def test_bundled_models_pass_check_model(name: str) -> None:
    # Few and short ones: a masked network scores each candidate at every position.
    sentences = ["The ship left.", "They saw her at home.", "He was not there, she said."]
    words = ["home", "there", "left", "was", "her", "ship"]
    assert len(check_model(load_model(f"contstim:{name}"), sentences, words)) == 5


def test_printed_events_omit_empty_fields() -> None:
    event = MaskedEvent("tokens", "[CLS]", "none", "keep")
    assert str(event).endswith("first unmarked, normalised vocabulary")
    # The digest contains empty fields: SHA-256 of the fields as JSON, computed with sha256sum.
    assert event.digest == "7e015ef5b238030b"
    sampled = MaskedEvent("tokens", "[CLS]", "none", "keep", orders="100, seed 0")
    assert str(sampled) == f"{event}, orders 100, seed 0"
