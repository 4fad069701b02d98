"""A model's file says whether sentences are of its training text, without keeping them."""

from __future__ import annotations

import gzip
from pathlib import Path

import kenlm
import numpy as np
import pytest
from toy_corpus import sentences, write

from contstim.cli import main
from contstim.models.ngram.arpa import read_arpa
from contstim.models.registry import load_model
from contstim.models.training_overlap import BloomFilter
from contstim.training.ngram import train_ngram

# Sentences alike but for a number, so that none is in both halves.
SEEN = [f"{words} w{i}" for i, words in enumerate(sentences(n=400))]
OTHER = [f"{words} v{i}" for i, words in enumerate(sentences(n=400, seed=1))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the spec of a model of `SEEN` that is smaller than its filter's lines are long."""
    folder = tmp_path_factory.mktemp("model")
    text = write(folder / "text.txt", [s.replace(" ", "  ") for s in SEEN])
    train_ngram(text, folder / "a.arpa.gz", fallback=(0.5, 1, 1.5))
    return f"ngram:{folder}/a.arpa.gz?unknown=unk"


def test_all_that_is_in_a_filter_is_found_and_little_else() -> None:
    others = [f"other {i}" for i in range(20_000)]
    seen = BloomFilter.from_letters(f"sentence{i}" for i in range(5000))
    assert seen.n_sentences == 5000
    assert seen.contains(f"Sentence, {i} !" for i in range(5000)).all()
    # (1 - exp(-7 / 10)) ** 7 = 0.8 % of the others, within five standard errors.
    expected = (1 - np.exp(-0.7)) ** 7
    assert abs(seen.contains(others).mean() - expected) < 5 * np.sqrt(expected / len(others))
    assert not BloomFilter.from_letters([]).contains(others[:100]).any()


def test_a_trained_file_holds_its_sentences_and_stays_an_arpa_file(
    model: str, tmp_path: Path
) -> None:
    path = Path(model.removeprefix("ngram:").partition("?")[0])
    seen = BloomFilter.read(path)
    assert seen is not None
    assert seen.n_sentences == len(SEEN)
    assert seen.contains(SEEN).all()
    assert seen.contains(OTHER).mean() < 0.05
    text = gzip.decompress(path.read_bytes())
    bare = tmp_path / "bare.arpa"
    bare.write_bytes(text[text.index(b"\\data\\") :])
    assert BloomFilter.read(bare) is None
    ours, theirs = read_arpa(path), read_arpa(bare)
    assert ours is not None
    assert theirs is not None
    assert ours.words == theirs.words
    # KenLM reads it as it reads the file without.
    assert kenlm.Model(str(path)).score(SEEN[0]) == kenlm.Model(str(bare)).score(SEEN[0])
    np.testing.assert_array_equal(
        load_model(model).score(SEEN), load_model(f"ngram:{bare}?unknown=unk").score(SEEN)
    )


@pytest.mark.parametrize("content", [b"", b"# filter of 9 training sentences\n", b"\x1f\x8b"])
def test_files_without_a_whole_filter_have_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.arpa").write_bytes(content)
    assert BloomFilter.read(tmp_path / "a.arpa") is None
    assert BloomFilter.read(tmp_path / "b.arpa") is None


def test_commands_say_when_most_sentences_are_training_text(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixed = write(tmp_path / "mixed.txt", [*SEEN[:60], *OTHER[:40]])
    apart = write(tmp_path / "apart.txt", [*SEEN[:40], *OTHER[:60]])
    seen = BloomFilter.read(Path(model.removeprefix("ngram:").partition("?")[0]))
    assert seen is not None
    # Now and then another sentence is taken for one of the text.
    n_seen = seen.contains([*SEEN[:60], *OTHER[:40]]).sum()
    note = (
        f"{model} was trained on {{}} of the {{}} sentences, so their scores are too "
        "high; set sentences apart with 'contstim sentences sample --unsampled FILE' and train on "
        "FILE\n"
    )
    scores = tmp_path / "scores.csv"
    models = ["--model", model, "--model", "contstim:bigram?unknown=unk"]
    assert main(["score", *models, str(apart), "--out", str(scores)]) == 0
    assert "was trained on" not in capsys.readouterr().err
    assert main(["score", *models, str(mixed), "--out", str(scores)]) == 0
    assert note.format(n_seen, 100) in capsys.readouterr().err
    text = write(tmp_path / "seen.txt", SEEN[:60])
    assert main(["score", *models, str(text), "--out", str(scores)]) == 0
    capsys.readouterr()
    assert main(["select", "natural", str(scores), "--per-pair", "1"]) == 0
    assert "was trained on" in capsys.readouterr().err
    pair = ["--pair", model, "contstim:bigram?unknown=unk", "--sentences", str(mixed)]
    # The vocabulary is of another language, of which nothing can be written.
    assert main(["synthesize", *pair, "--limit", "1", "--out", str(tmp_path / "t.csv")]) == 1
    assert note.format(1, 1) in capsys.readouterr().err


def test_a_text_is_split_without_a_sentence_on_both_sides(tmp_path: Path) -> None:
    lines = [f"{s}." for s in SEEN]
    text = write(tmp_path / "text.txt", [*lines, *(line.upper() for line in lines[:100])])
    natural, rest = tmp_path / "natural.txt", tmp_path / "rest.txt"
    argv = ["sample", str(text), "--length", "2-6", "--n", "40", "--out", str(natural)]
    assert main(["sentences", *argv, "--unsampled", str(rest)]) == 0
    sampled, others = (path.read_text("utf-8").splitlines() for path in (natural, rest))
    assert len(sampled) == 40
    folded = {line.casefold() for line in sampled}
    expected = [s for s in text.read_text("utf-8").splitlines() if s.casefold() not in folded]
    assert others == expected
    train_ngram(rest, tmp_path / "a.arpa", fallback=(0.5, 1, 1.5))
    seen = BloomFilter.read(tmp_path / "a.arpa")
    assert seen is not None
    assert seen.contains(sampled).mean() < 0.2
