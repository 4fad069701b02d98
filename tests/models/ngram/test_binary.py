"""KenLM binaries, which score sentences but do not list their n-grams."""

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest
from test_kneser_ney import LMPLZ_TEXT
from test_model import check_replacements, load
from toy_corpus import write

from contstim.errors import InputError, ModelFileError, UnknownWordError
from contstim.models.check import check_model
from contstim.text import Sentence, WordList
from contstim.training.ngram import NgramVocabulary, train_ngram

# What KenLM's build_binary (sources of the package kenlm 0.3.0) makes, as a trie, of the model that
# lmplz estimates from LMPLZ_TEXT with --discount_fallback 0.5 1 1.5; compressed, in base 85.
BINARY = (
    "c-qU&O)OBz$yLZGDJihh*U!#KO-##7%}LQq&d=3P&QD2INXswEO)OC;OD!tS%+FIW<zhg9274f}pAks>2Lg}?BUF"
    "YNOdhajf{KAKOs4>p7Dh6O6G|7<DekpwD`gPO&c1v}T%4UN=ljRn;s@FLceX!we!y9-z38db8g=U>4RzgjgD*O*m"
    "@UeCLRG4FTb6u*g`?+z?VC0+qzA>_`wlbL@mkA%kVBEIV)z)SvKPi)_q$~OgvrnMp{r+t@>|^^_kW%4xQ`V{9;BZ"
    "QO`a3UJP@A?iEl5oaUTy7f40J`eS8e4K!5=|2rQrS`8LbNFRblvHhcs#R5o#Z0fjD4$L7peAcn}z@^4>33>DX17T"
    "-W>bQyc+{{S&ukM#$<0W+@aa(x0Zd^x;sgAEKV*)s{uh`niD_Z7rQg^A=!I@G-dF-n7CDj$Iut)Wn7Ooh2?28?k;"
    "TjuF%&v)JOsTm4Cj6QH&QD?~izt1B^?5E^`zWMJN%Kp@NJX`(nbRDmDyi?oW-=}^qe-z%L{byg%zm-2Yk8WSPUSn"
    "Tw?M3Ulo4fCQJRO%|_xTq}0N9k~W!o{>6x%T*GT7(?spP~GhLVg_hQz!ShT_C>hN8qghLrqt1_0vB>@E"
)
WORDS = ["the", "dog", "saw", "cat", "a", "ran", "and"]


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.trie"
    path.write_bytes(zlib.decompress(base64.b85decode(BINARY)))
    return path


@pytest.mark.parametrize("end", ["scored", "none"])
def test_binary_scores_equal_the_arpa_file(binary: Path, tmp_path: Path, end: str) -> None:
    text = write(tmp_path / "t.txt", LMPLZ_TEXT)
    train_ngram(text, tmp_path / "m.arpa", order=3, fallback=(0.5, 1, 1.5))
    options = {"unknown": "unk", "end": end}
    trie, arpa = load(binary, **options), load(tmp_path / "m.arpa", **options)
    assert trie.order == 3
    lines = [*LMPLZ_TEXT, "a zebra ran", "zebra", "cat cat cat cat"]
    np.testing.assert_allclose(trie.score(lines), arpa.score(lines), atol=1e-5)
    words = WordList((*WORDS, "zebra"))
    for position in range(4):
        check_replacements(trie, Sentence.parse("the cat saw yaks"), position, words)


def test_binary_passes_check_model(binary: Path) -> None:
    model = load(binary)
    assert len(check_model(model, LMPLZ_TEXT, WORDS)) == 5
    for word in ("zebra", "<s>", "</s>", "<unk>", "the\0"):
        assert not model.in_vocabulary([word])[0]
        with pytest.raises(UnknownWordError):
            model.score([f"the {word} ran"])
    assert not model.in_vocabulary(["\ud800"])[0]


def test_unknown_class_is_detected(binary: Path, tmp_path: Path) -> None:
    text = write(tmp_path / "t.txt", LMPLZ_TEXT)
    closed = NgramVocabulary(closed=True)
    train_ngram(text, tmp_path / "m.arpa", vocabulary=closed, fallback=(0.5, 1, 1.5))
    load(binary, unknown="unk")
    with pytest.raises(InputError, match="no unknown-word symbol"):
        load(tmp_path / "m.arpa", unknown="unk")


def test_truncated_binaries_do_not_load(binary: Path) -> None:
    # The last 40 bytes are the words as text, which scoring does not need.
    data = binary.read_bytes()
    for size in (40, 60, 100, 150, 300, 500, len(data) - 60):
        binary.write_bytes(data[:size])
        with pytest.raises(ModelFileError) as raised:
            load(binary)
        assert "\n" not in str(raised.value)
