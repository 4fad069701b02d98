"""Sentences of corpora in files and in NLTK."""

import io

import nltk
import nltk.corpus
import pytest
from nltk.corpus.reader import (
    BracketParseCorpusReader,
    PlaintextCorpusReader,
    TaggedCorpusReader,
    WordListCorpusReader,
)
from nltk.corpus.util import LazyCorpusLoader
from nltk.tokenize.punkt import PunktTrainer, save_punkt_params

from contstim.errors import InputError, UnknownNameError
from contstim.text.corpora import corpus_sentences, detokenize, split_sentences


@pytest.fixture
def nltk_folder(tmp_path, monkeypatch):
    folder = tmp_path / "nltk_data"
    (folder / "corpora").mkdir(parents=True)
    monkeypatch.setattr(nltk.data, "path", [str(folder)])
    return folder


def add_corpus(folder, monkeypatch, name, reader, **files):
    (folder / "corpora" / name).mkdir()
    for file, content in files.items():
        (folder / "corpora" / name / file).write_text(content, encoding="utf-8")
    loader = LazyCorpusLoader(name, reader, list(files), encoding="utf-8")
    monkeypatch.setattr(nltk.corpus, name, loader)


class TestRule:
    @pytest.mark.parametrize(
        ("paragraph", "sentences"),
        [
            ("It rained. We left.", ["It rained.", "We left."]),
            ("Mr. J. Smith left. He ran!", ["Mr. J. Smith left.", "He ran!"]),
            ('"Stop!" she said. "Why?" He ran.', ['"Stop!" she said.', '"Why?"', "He ran."]),
            ("He waited... and left. (So did I.) Yes.", None),
            ("It was I. She knew.", ["It was I.", "She knew."]),
            ("'Come here.' 'No.' Then he went", ["'Come here.'", "'No.'", "Then he went"]),
            ("It cost 3.50 in all. 12 came.", ["It cost 3.50 in all.", "12 came."]),
            ("यह है। हाँ।", ["यह है। हाँ।"]),
        ],
    )
    def test_split_sentences(self, paragraph, sentences):
        expected = sentences or ["He waited... and left.", "(So did I.)", "Yes."]
        assert split_sentences(paragraph) == expected

    def test_split_sentences_preserves_the_text(self):
        text = "Well... who knows? Dr. No did! 'Tis e.g. Tuesday . The end"
        assert " ".join(split_sentences(text)) == text


class TestFiles:
    def test_lines(self, tmp_path):
        path = tmp_path / "text.txt"
        path.write_text("One  line. Still the line.\n\nTwo.\n")
        assert list(corpus_sentences(path)) == ["One line. Still the line.", "Two."]

    def test_running_text_joins_the_lines_of_a_paragraph(self, tmp_path):
        path = tmp_path / "text.txt"
        path.write_text("It was\nlate. We\nleft.\n\nA heading\n\nThe end.\n")
        found = list(corpus_sentences(path, "rule"))
        assert found == ["It was late.", "We left.", "A heading", "The end."]

    def test_standard_input(self, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"One.\nTwo.\n")))
        assert list(corpus_sentences("-")) == ["One.", "Two."]

    def test_unknown_splitter(self, tmp_path):
        path = tmp_path / "text.txt"
        path.write_text("One.")
        with pytest.raises(UnknownNameError, match=r"unknown sentence splitter 'rules'.*rule"):
            list(corpus_sentences(path, "rules"))


class TestPunkt:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "text.txt"
        path.write_text("We met Xyz. Brown.\nHe left.\n")
        return path

    def test_missing(self, nltk_folder, path):
        with pytest.raises(InputError, match="Punkt data are not installed"):
            list(corpus_sentences(path, "punkt"))
        assert list(corpus_sentences(path, "auto")) == ["We met Xyz.", "Brown.", "He left."]

    @pytest.mark.parametrize("split", ["punkt", "auto"])
    def test_installed(self, nltk_folder, path, split):
        trainer = PunktTrainer()
        trainer.train("We met.", finalize=True)
        params = trainer.get_params()
        params.abbrev_types.add("xyz")  # an abbreviation that the rule does not know
        target = nltk_folder / "tokenizers" / "punkt_tab" / "english"
        target.mkdir(parents=True)
        save_punkt_params(params, str(target))
        assert list(corpus_sentences(path, split)) == ["We met Xyz. Brown.", "He left."]


class TestNltk:
    def test_tokenised_corpus(self, nltk_folder, monkeypatch):
        tagged = "``/`` Why/W ?/. ?/. ''/'' asked/V Ann/N ,/, laughing/V ./.\n"
        add_corpus(nltk_folder, monkeypatch, "brown", TaggedCorpusReader, ca01=tagged)
        assert list(corpus_sentences("nltk:brown")) == ['"Why?" asked Ann, laughing.']

    def test_traces_of_the_treebank_are_dropped(self, nltk_folder, monkeypatch):
        tree = "( (S (NP (NNP Ann)) (VP (VBD left) (NP (-NONE- *-1))) (. .)) )\n"
        add_corpus(nltk_folder, monkeypatch, "treebank", BracketParseCorpusReader, wsj=tree)
        assert list(corpus_sentences("nltk:treebank")) == ["Ann left."]

    def test_running_text(self, nltk_folder, monkeypatch):
        text = "It was late.\nWe left."
        add_corpus(nltk_folder, monkeypatch, "inaugural", PlaintextCorpusReader, a=text)
        assert list(corpus_sentences("nltk:inaugural")) == ["It was late.", "We left."]

    def test_corpus_without_sentences(self, nltk_folder, monkeypatch):
        add_corpus(nltk_folder, monkeypatch, "words", WordListCorpusReader, en="a\nb\n")
        with pytest.raises(InputError, match="'words' contains no sentences"):
            list(corpus_sentences("nltk:words"))

    def test_data_missing(self, nltk_folder, monkeypatch):
        loader = LazyCorpusLoader("brown", TaggedCorpusReader, ["a"], encoding="utf-8")
        monkeypatch.setattr(nltk.corpus, "brown", loader)
        with pytest.raises(InputError, match="finds no data of 'brown'; set NLTK_DATA") as error:
            list(corpus_sentences("nltk:brown"))
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("name", ["browne", "reader", "__name__"])
    def test_unknown_corpus(self, name):
        with pytest.raises(UnknownNameError, match=f"unknown NLTK corpus '{name}'"):
            list(corpus_sentences(f"nltk:{name}"))


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ("He left ; ; she did n't .", "He left; she didn't."),
        ("`` No '' , he said .", '"No", he said.'),
        ('" No " , he said , " but why " ?', '"No", he said, "but why"?'),
        ("the workers ' pay ( $ 5 , or 3 % ) rose", "the workers' pay ($5, or 3%) rose"),
        ("a ' pro ' letter -LRB- old -RRB- .", "a 'pro' letter (old)."),
        ("Senators -- all of them -- left", "Senators -- all of them -- left"),
        ("It 's 5 : 30 .", "It's 5: 30."),
        ("very very good", "very very good"),
    ],
)
def test_detokenize(tokens, text):
    assert detokenize(tokens.split()) == text
