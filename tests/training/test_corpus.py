"""Reading text and vocabularies for training.

Tests `contstim.training.corpus`.
"""

import gzip
from pathlib import Path

import pytest
from toy_corpus import write

from contstim.errors import InputError
from contstim.text import read_words
from contstim.training.ngram import NgramVocabulary, read_corpus


def words_of(*paths: Path, punctuation: str = "keep", **options) -> str:
    corpus = read_corpus(paths, NgramVocabulary(**options), punctuation=punctuation)
    return " ".join(corpus.words[i] for i in corpus.ids)


def test_sentences_have_start_and_end_symbols(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", ["the dog ran", "", "  ", "so\tdid I"])
    assert words_of(text) == "<s> the dog ran </s> <s> so did I </s>"


def test_read_corpus_of_gzip_files_and_punctuation(tmp_path: Path) -> None:
    first = write(tmp_path / "a.txt", ['"Stop!" she said...'])
    second = tmp_path / "b.gz"
    second.write_bytes(gzip.compress("Été.\r\n--\nno final newline".encode()))
    assert words_of(first, second, punctuation="split") == (
        '<s> " Stop ! " she said ... </s> <s> Été . </s> <s> -- </s> <s> no final newline </s>'
    )
    assert words_of(first, second, punctuation="drop") == (
        "<s> Stop she said </s> <s> Été </s> <s> no final newline </s>"
    )


def test_invalid_lines_are_reported_by_number(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_bytes(b"a line\n" * 50 + b"a <s> symbol\n")
    with pytest.raises(InputError, match="^line 51 of"):
        words_of(text)


def test_vocabulary_by_count_and_by_list(tmp_path: Path) -> None:
    text = write(tmp_path / "a.txt", ["a b a", "c a b"])
    assert words_of(text, min_count=2) == "<s> a b a </s> <s> <unk> a b </s>"
    corpus = read_corpus([text], NgramVocabulary(("b", "z")))
    assert corpus.words == ("<unk>", "<s>", "</s>", "b", "z")
    assert corpus.n_tokens == 6
    assert corpus.n_sentences == 2


@pytest.mark.parametrize("symbol", ["<s>", "</s>", "<unk>"])
def test_symbols_in_the_text_are_refused(tmp_path: Path, symbol: str) -> None:
    text = write(tmp_path / "a.txt", ["one", f"two {symbol} three"])
    with pytest.raises(InputError) as raised:
        words_of(text)
    assert str(raised.value) == (
        f"line 2 of {str(text)!r} contains {symbol}, a reserved symbol of n-gram models; "
        "remove it from the text"
    )
    # As part of a longer word it is that word.
    assert words_of(write(text, [f"two{symbol}"])) == f"<s> two{symbol} </s>"


def test_invalid_texts_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\nbad \xff byte\n")
    with pytest.raises(InputError, match=r"a\.txt, line 3 is not UTF-8 text"):
        words_of(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"^there is no sentence in '.*a\.txt'; give one"):
        words_of(path)
    zipped = tmp_path / "a.txt.gz"
    zipped.write_bytes(gzip.compress(b"one two\n" * 50)[:-9])
    with pytest.raises(InputError, match=r"a\.txt\.gz is not a whole gzip file"):
        words_of(zipped)
    with pytest.raises(InputError, match=r"^there is no file .*none; check the path"):
        words_of(tmp_path / "none")
    with pytest.raises(InputError, match=r"^cannot read .*: Is a directory"):
        words_of(tmp_path)


def test_vocabulary_files_and_options(tmp_path: Path) -> None:
    listed = write(tmp_path / "v.txt", ["b a", "b", "c"])
    assert read_words(listed) == ("b", "a", "c")
    with pytest.raises(InputError, match="the vocabulary is empty; give at least one word"):
        NgramVocabulary(read_words(write(tmp_path / "v.txt", [""])))
    with pytest.raises(InputError, match="min_count is 0; give at least 1"):
        NgramVocabulary(min_count=0)
    with pytest.raises(InputError, match="a closed vocabulary cannot exclude words by min_count 2"):
        NgramVocabulary(min_count=2, closed=True)
    text = write(tmp_path / "a.txt", ["a b"])
    with pytest.raises(InputError, match="the closed vocabulary lacks 'b', a word of the text"):
        words_of(text, words=("a",), closed=True)
