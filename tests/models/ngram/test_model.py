"""Scores of n-gram models against their definition, and rejected inputs.

Tests `contstim.models.ngram` and `contstim.models.word_tokenizer`.
"""

import math
import subprocess
import sys
from pathlib import Path

import kenlm
import numpy as np
import pytest
from test_kneser_ney import FALLBACK, table_prob
from toy_corpus import WORDS, random_table, sentences, write, write_random

from contstim.errors import InputError, ModelFileError, SpecError, UnknownWordError
from contstim.models.check import check_model
from contstim.models.ngram.model import NgramModel
from contstim.models.registry import load_model
from contstim.models.toy import check_normalisation
from contstim.models.word_tokenizer import END, START, UNKNOWN
from contstim.text import Sentence, WordList
from contstim.training.ngram import train_ngram

SENTENCES = ["a bee cat", "dog", "elephant flying-fox a a bee cat dog", "cat cat cat cat cat"]


def load(path: Path, **options: str) -> NgramModel:
    query = "&".join(f"{k}={v}" for k, v in options.items())
    model = load_model(f"ngram:{path}" + (f"?{query}" if query else ""))
    assert isinstance(model, NgramModel)
    return model


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("end", ["scored", "none"])
def test_score_is_the_chain_rule_with_back_off(tmp_path: Path, order: int, end: str) -> None:
    path = write_random(tmp_path / "m.arpa.gz", order, seed=order)
    model, table = load(path, end=end), random_table(order, seed=order)
    assert model.order == order
    for sentence, score in zip(SENTENCES, model.score(SENTENCES), strict=True):
        words = [START, *sentence.split(), *([END] if end == "scored" else [])]
        expected = sum(
            math.log(table_prob(table, words[t], tuple(words[max(0, t - order + 1) : t])))
            for t in range(1, len(words))
        )
        assert score == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("entropy", [0.0, 1e-3])
def test_probabilities_of_all_strings_sum_to_one(
    tmp_path: Path, order: int, entropy: float
) -> None:
    path = tmp_path / "m.arpa"
    text = write(tmp_path / "text.txt", sentences())
    train_ngram(text, path, order=order, entropy=entropy, fallback=FALLBACK)
    # Words with no token of their own share <unk>: one such word stands for its whole mass.
    words = [*WORDS, "other"]
    closed, opened = (load(path, unknown="unk", end=end) for end in ("scored", "none"))
    check_normalisation(closed, opened, words, length=3)


def test_ngram_model_passes_check_model(tmp_path: Path) -> None:
    model = load(write_random(tmp_path / "m.arpa", 3, seed=1))
    assert len(check_model(model, SENTENCES, WORDS)) == 5
    assert "error" in str(model.event)


def test_scores_equal_kenlm(tmp_path: Path) -> None:
    path = tmp_path / "m.arpa"
    train_ngram(write(tmp_path / "t.txt", sentences(400, 300, 3)), path, order=4, fallback=FALLBACK)
    lines = sentences(200, 300, 9)
    reader = kenlm.Model(str(path))
    expected = [reader.score(line) * math.log(10) for line in lines]
    np.testing.assert_allclose(load(path, unknown="unk").score(lines), expected, atol=1e-4)


def test_tokens_words_and_counts_of_a_sentence(tmp_path: Path) -> None:
    model = load(write_random(tmp_path / "m.arpa", 3, seed=1), punctuation="drop", case="lower")
    sentence = '"A bee," -- Dog!'
    part = model.score_tokens([sentence])[0]
    assert part.tokens == ("A", "bee", "Dog", END)
    assert part.word_indices.tolist() == [0, 1, 3, 3]
    assert part.n_words == 4
    assert model.score(["a bee dog"])[0] == model.score([sentence])[0]
    assert model.score([sentence])[0] == pytest.approx(part.log_prob, abs=1e-12)
    assert model.score_words([sentence])[0].sum() == pytest.approx(part.log_prob)
    totals = model.score_with_counts([sentence, "cat"])
    assert totals.n_tokens.tolist() == [4, 2]
    assert totals.n_words.tolist() == [4, 1]
    assert totals.score.tolist() == model.score([sentence, "cat"]).tolist()
    opened = load(model.path, end="none", punctuation="drop", case="lower")
    assert opened.score_tokens([sentence])[0].tokens == ("A", "bee", "Dog")


def test_unknown_words_are_rejected_or_scored_as_unk(tmp_path: Path) -> None:
    path = write_random(tmp_path / "m.arpa", 3, seed=1)
    model = load(path)
    for word in ("zebra", START, END, UNKNOWN, "Dog"):
        with pytest.raises(UnknownWordError) as raised:
            model.score(["a bee", f"a {word} bee"])
        assert str(raised.value).startswith(
            f"ngram:{path} does not know {word!r} in 'a {word} bee'"
        )
    known = model.in_vocabulary(["dog", "zebra", UNKNOWN, "<s>"])
    assert known.tolist() == [True, False, False, False]
    lenient = load(path, unknown="unk")
    assert lenient.in_vocabulary(["zebra"]).tolist() == [False]
    scores = lenient.score(["a zebra bee", f"a {START} bee", f"a {UNKNOWN} bee", "a \0 bee"])
    assert np.ptp(scores) == 0
    bare = write_random(tmp_path / "bare.arpa", 3, seed=1, unknown=False)
    with pytest.raises(InputError, match="no unknown-word symbol"):
        load(bare, unknown="unk")


def test_sentences_without_words_are_rejected(tmp_path: Path) -> None:
    model = load(write_random(tmp_path / "m.arpa", 2, seed=1), punctuation="drop")
    with pytest.raises(InputError, match="sentence 2 is empty"):
        model.score(["a", " "])
    with pytest.raises(InputError, match=r"'... !' contains no word of"):
        model.score(["a", "... !"])
    with pytest.raises(InputError, match="give a list of sentences"):
        model.score("a")
    assert model.score([]).shape == (0,)


def test_spec_round_trips(tmp_path: Path) -> None:
    path = write_random(tmp_path / "m.arpa", 2, seed=1)
    model = load(path, unknown="unk", end="scored", case="lower")
    assert model.spec == f"ngram:{path}?case=lower&unknown=unk"
    again = load_model(model.spec)
    assert again.spec == model.spec
    assert again.fingerprint == model.fingerprint
    assert model.fingerprint != load(write_random(tmp_path / "o.arpa", 2, seed=2)).fingerprint
    with pytest.raises(SpecError, match="unknown option 'ends'"):
        load(path, ends="none")


def test_changed_file_is_detected(tmp_path: Path) -> None:
    path = write_random(tmp_path / "m.arpa", 2, seed=1)
    model, sentence = load(path), Sentence.parse("a bee cat")
    write_random(path, 2, seed=2)
    for ask in (
        lambda: model.fingerprint,
        lambda: model.score_replacements(sentence, 0, WordList(("a", "dog"))),
    ):
        with pytest.raises(ModelFileError) as error:
            ask()
        assert str(error.value) == (
            f"'{path}' was changed or removed after it was loaded; load the model again"
        )
    assert load(path).fingerprint == load(path).fingerprint


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz"])
def test_truncated_files_do_not_load(tmp_path: Path, name: str) -> None:
    path = write_random(tmp_path / name, 3, seed=0)
    data = path.read_bytes()
    for share in (0, 0.02, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99):
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(ModelFileError) as raised:
            load(path)
        assert "\n" not in str(raised.value)


def test_files_of_other_formats_are_rejected_quietly(tmp_path: Path) -> None:
    magic = b"mmap lm http://kheafield.com/code format version 5\n\0"
    files = {
        "text": b"hello\n" * 50,
        "zip": b"PK\x03\x04" + bytes(range(200)),
        "magic": magic,
        "header": magic + bytes(500),
        "gzip": b"\x1f\x8b\x08\x00",
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    # In an interpreter of its own, since what is guarded against would end it.
    code = (
        "import sys\n"
        "from contstim.errors import ModelFileError\n"
        "from contstim.models.registry import load_model\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n"
        "        load_model('ngram:' + path)\n"
        "    except ModelFileError as error:\n"
        "        print(len(str(error).splitlines()))\n"
    )
    names = [*map(str, tmp_path.iterdir()), str(tmp_path), str(tmp_path / "none")]
    done = subprocess.run(
        [sys.executable, "-c", code, *names], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1"] * len(names)
    assert done.stderr == ""


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("end", ["scored", "none"])
@pytest.mark.parametrize("unknown", ["error", "unk"])
def test_replacement_scores_equal_scores_of_whole_sentences(
    tmp_path: Path, order: int, end: str, unknown: str
) -> None:
    rng = np.random.default_rng(order)
    for seed in range(3):
        path = write_random(tmp_path / f"{seed}.arpa", order, seed, unknown=unknown == "unk")
        model = load(path, end=end, unknown=unknown)
        names = [*WORDS, "zebra", "yak"] if unknown == "unk" else WORDS
        words = WordList(tuple(rng.permutation(names).tolist()))
        for length in (1, 2, 3, 7):
            sentence = Sentence.parse(" ".join(rng.choice(names, size=length)))
            for position in range(length):
                check_replacements(model, sentence, position, words)


def check_replacements(
    model: NgramModel, sentence: Sentence, position: int, words: WordList
) -> None:
    found = model.score_replacements(sentence, position, words)
    fresh = model.score([str(sentence.replace(position, word)) for word in words])
    assert found.is_exact
    np.testing.assert_allclose(found.upper_bounds, fresh, rtol=0, atol=1e-5)
    np.testing.assert_array_equal(found.estimates, found.upper_bounds)
    index = np.array([len(words) - 1, 0])
    np.testing.assert_array_equal(found.score(index), found.upper_bounds[index])


def test_replacements_without_arrays_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_random(tmp_path / "m.arpa", 3, seed=4)
    words = WordList((*WORDS, "zebra", "yak"))
    sentence = Sentence.parse("dog a zebra cat bee")
    for end in ("scored", "none"):
        fast = load(path, unknown="unk", end=end)
        slow = load(path, unknown="unk", end=end)
        monkeypatch.setattr(slow, "_scorer", None, raising=False)
        for position in range(5):
            check_replacements(slow, sentence, position, words)
            np.testing.assert_allclose(
                slow.score_replacements(sentence, position, words).upper_bounds,
                fast.score_replacements(sentence, position, words).upper_bounds,
                atol=1e-5,
            )


def test_replacements_of_files_that_lack_shorter_ngrams(tmp_path: Path) -> None:
    path = write_random(tmp_path / "m.arpa", 3, seed=0)
    lines = path.read_text().split("\n")
    at = lines.index("\\2-grams:")
    longer = {
        line.split("\t")[1] for line in lines[lines.index("\\3-grams:") + 1 :] if "\t" in line
    }
    suffixes = {gram.partition(" ")[2] for gram in longer}
    prefixes = {gram.rpartition(" ")[0] for gram in longer}
    gone = next(
        i
        for i, line in enumerate(lines)
        if i > at and line.count("\t") == 2 and line.split("\t")[1] in suffixes - prefixes
    )
    del lines[gone]
    lines[2] = f"ngram 2={int(lines[2].partition('=')[2]) - 1}"
    path.write_text("\n".join(lines))
    model = load(path)
    for position in range(4):
        check_replacements(model, Sentence.parse("dog a cat bee"), position, WordList(tuple(WORDS)))


def test_candidates_keep_adjacent_punctuation(tmp_path: Path) -> None:
    text = write(tmp_path / "t.txt", [line + " ." for line in sentences()])
    train_ngram(text, tmp_path / "m.arpa", order=3, fallback=FALLBACK)
    model = load(tmp_path / "m.arpa", punctuation="split")
    sentence = Sentence.parse("a bee cat.")
    for position in range(3):
        check_replacements(model, sentence, position, WordList(tuple(WORDS)))
    with pytest.raises(UnknownWordError, match="does not know the candidate 'zebra'"):
        model.score_replacements(sentence, 0, WordList(("zebra",)))


def test_scoring_loads_neither_training_code_nor_torch() -> None:
    code = (
        "import sys, contstim; contstim.load_model('contstim:bigram').score(['The dog ran.']); "
        "contstim.models.registry.score_kind('lstm:file'); "
        "print(*sorted(n for n in sys.modules if n == 'torch' or 'contstim.models.' in n))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    needed = (
        "base cache ngram ngram.arpa ngram.model ngram.prefixes prefixes reductions registry "
        "word_tokenizer"
    )
    assert done.stdout.split() == [f"contstim.models.{name}" for name in sorted(needed.split())]
