"""The converter of Sphinx tries, on a file written here and on the real one."""

import importlib.util
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.files import cache_folder
from contstim.models.registry import load_model
from contstim.training import packages
from contstim.training.packages import converted_trigram, read_sphinx_trie

WORDS = ["</s>", "<s>", "cat", "dog", "the"]
# By predicted word: (p, back-off, {word before: (p, back-off, {word before that: p})})
TRIE = {
    "</s>": (-1.0, 0.0, {"cat": (-0.3, 0.0, {"the": -0.2}), "dog": (-0.4, 0.0, {})}),
    "<s>": (-9.0, -0.5, {}),
    "cat": (-1.2, -0.2, {"the": (-0.5, -0.1, {"<s>": -0.35})}),
    "dog": (-1.3, -0.3, {"the": (-0.6, -0.15, {"<s>": -0.45})}),
    "the": (-0.8, -0.4, {"<s>": (-0.1, -0.25, {})}),
}


def pack(records: Iterable[Iterable[tuple[int, int]]], count: int, width: int) -> bytes:
    """Pack records of (value, bits), least significant bit first, with the tail the format has."""
    bits, at = 0, 0
    for record in records:
        for value, size in record:
            assert value < 1 << size
            bits |= value << at
            at += size
    return bits.to_bytes(((count + 1) * width + 7) // 8 + 8, "little")


def sphinx_trie(order: int = 3) -> bytes:
    base = np.log10(1.0001)
    tables: list[list[float]] = [[], [], []]

    def bin_of(table: int, value: float) -> int:
        tables[table].append(value / base)
        return len(tables[table]) - 1

    unigrams, bigrams, trigrams = b"", [], []
    n2 = sum(len(before) for _, _, before in TRIE.values())
    n3 = sum(len(more) for _, _, before in TRIE.values() for _, _, more in before.values())
    word_bits, next_bits = len(WORDS).bit_length(), n3.bit_length()
    for word in WORDS:
        prob, weight, before = TRIE[word]
        unigrams += struct.pack("<ffI", prob / base, weight / base, len(bigrams))
        for other, (prob2, weight2, more) in before.items():
            bigrams.append(
                [
                    (WORDS.index(other), word_bits),
                    (bin_of(1, weight2), 16),
                    (bin_of(0, prob2), 16),
                    (len(trigrams), next_bits),
                ]
            )
            trigrams += [[(WORDS.index(w), word_bits), (bin_of(2, p), 16)] for w, p in more.items()]
    unigrams += struct.pack("<ffI", 0, 0, n2)
    bigrams.append([(0, word_bits), (0, 16), (0, 16), (n3, next_bits)])
    text = "\0".join(WORDS).encode() + b"\0"
    return b"".join(
        [
            b"Trie Language Model",
            bytes([order]),
            struct.pack("<IIIi", len(WORDS), n2, n3, 0),
            *(struct.pack("<65536f", *t, *[0.0] * (65536 - len(t))) for t in tables),
            unigrams,
            pack(bigrams, n2, word_bits + 32 + next_bits),
            pack(trigrams, n3, word_bits + 16),
            struct.pack("<I", len(text)),
            text,
        ]
    )


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `pocketsphinx` with the small model; returns the model's file."""
    package = tmp_path / "site" / "pocketsphinx"
    model = package / "model" / "en-us" / "en-us.lm.bin"
    model.parent.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it is not to be imported')\n")
    info = tmp_path / "site" / "pocketsphinx-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pocketsphinx\nVersion: 9.9\n")
    model.write_bytes(sphinx_trie())
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache" / "deep"))
    return model


def test_reads_every_ngram(installed: Path) -> None:
    table = read_sphinx_trie(installed)
    assert table.words == (*WORDS, "<unk>")
    size = len(table.words)
    first, second, third = table.levels
    np.testing.assert_allclose(first.log_probs[:-1], [TRIE[w][0] for w in WORDS], atol=1e-6)
    np.testing.assert_allclose(first.log_backoffs[:-1], [TRIE[w][1] for w in WORDS], atol=1e-6)
    pairs = [(table.words[k // size], table.words[k % size]) for k in second.keys]
    expected = [(h, w) for w in WORDS for h in TRIE[w][2]]
    assert sorted(pairs) == sorted(expected)
    for (h, w), prob, weight in zip(pairs, second.log_probs, second.log_backoffs, strict=True):
        assert (prob, weight) == pytest.approx(TRIE[w][2][h][:2], abs=1e-6)
    triples = {
        (*pairs[k // size], table.words[k % size]): p
        for k, p in zip(third.keys, third.log_probs, strict=True)
    }
    assert triples == pytest.approx(
        {("the", "cat", "</s>"): -0.2, ("<s>", "the", "cat"): -0.35, ("<s>", "the", "dog"): -0.45},
        abs=1e-6,
    )


def test_loads_by_name_and_converts_once(installed: Path) -> None:
    model = load_model("contstim:pocketsphinx-trigram")
    assert model.spec == "contstim:pocketsphinx-trigram"
    assert model.event.case == "lower"
    assert model.event.punctuation == "drop"
    # <s> the dog </s>: a trigram, then back-off from "the dog" to the bigram "dog </s>".
    expected = np.log(10) * (-0.1 - 0.45 + (-0.15 - 0.4))
    assert model.score(["The dog!"])[0] == pytest.approx(expected, abs=1e-3)
    target = converted_trigram()
    assert target == cache_folder() / "pocketsphinx-9.9-en-us.arpa"
    installed.unlink()
    assert load_model("contstim:pocketsphinx-trigram").score(["the dog"]) == model.score(
        ["the dog"]
    )


def test_damaged_files_are_refused(installed: Path) -> None:
    data = sphinx_trie()
    for size in (10, 19, 25, 1000, 786_500, len(data) - 70, len(data) - 20, len(data) - 3):
        installed.write_bytes(data[:size])
        with pytest.raises(ModelFileError) as raised:
            read_sphinx_trie(installed)
        assert "\n" not in str(raised.value)
    bound = data.index(struct.pack("<ffI", 0, 0, 5)) + 8  # of the last unigram's bigrams
    for value in (0, 4, 6, 1 << 31):
        installed.write_bytes(data[:bound] + struct.pack("<I", value) + data[bound + 4 :])
        with pytest.raises(ModelFileError, match="it is damaged"):
            read_sphinx_trie(installed)
    installed.write_bytes(sphinx_trie(order=2))
    with pytest.raises(ModelFileError, match="is of order 2; only trigrams can be converted"):
        read_sphinx_trie(installed)
    with pytest.raises(ModelFileError, match="No such file"):
        read_sphinx_trie(installed.parent / "none")


def test_says_how_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError) as raised:
        load_model("contstim:pocketsphinx-trigram")
    assert str(raised.value) == (
        "contstim:pocketsphinx-trigram is in the package pocketsphinx, which is not installed; "
        'pip install "contstim[models]"'
    )


def test_cache_folder(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONTSTIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/contstim")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "contstim"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError, match="set CONTSTIM_CACHE to a folder that can be written"):
        converted_trigram()


@pytest.mark.skipif(
    importlib.util.find_spec("pocketsphinx") is None,
    reason="the package pocketsphinx (extra `models`) is not installed",
)
def test_the_real_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path))
    model = load_model("contstim:pocketsphinx-trigram")
    natural, shuffled = model.score(
        ["The old man walked down the street.", "The man old down street walked the."]
    )
    assert natural > shuffled + 10
