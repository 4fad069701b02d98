"""Reading, filtering and sampling of sentences."""

import gzip
import io

import pytest

from contstim.errors import InfeasibleError, InputError, UnknownNameError
from contstim.text import parse_length_range, pool, read_sentences, read_words
from contstim.text.corpora import SentenceRules, sample_sentences
from contstim.text.vocabulary import Vocabulary

FOUR = SentenceRules(4, 4)
TEXT = [f"The dog saw {word}." for word in ("rain", "snow", "trees", "grass", "birds", "boats")]


class TestReadSentences:
    def test_lines(self, tmp_path):
        path = tmp_path / "sentences.txt"
        path.write_bytes(b"\xef\xbb\xbfOne here, two there.\r\n Two. \n\n\n")
        assert read_sentences(path) == ["One here, two there.", "Two."]

    def test_csv(self, tmp_path):
        path = tmp_path / "sentences.csv.gz"
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write('id,sentence\n1,"Yes, he came."\n2,No.\n')
        assert read_sentences(path) == ["Yes, he came.", "No."]

    def test_standard_input(self, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"sentence\nOne.\n")))
        assert read_sentences("-") == ["One."]

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("a.txt", b"", "a.txt contains no sentence"),
            ("a.txt", b"\n\n", "a.txt contains no sentence"),
            ("a.txt", b"One.\n \nTwo.\n", "a.txt, line 2 has no sentence"),
            ("a.txt", b"One.\nTw\xf6.\n", "a.txt, line 2 is not UTF-8"),
            ("a.csv", b"text\nOne.\n", "no column 'sentence', only text"),
            ("a.csv", b"sentence\n", "only a header"),
            ("a.csv", b'id,sentence\n1,"One\nmore."\n2,\n', "a.csv, line 4 has no sentence"),
            ("a.csv", b"id,sentence\n1\n", "a.csv, line 2 has no sentence"),
        ],
    )
    def test_invalid_sentence_files_are_rejected(self, tmp_path, name, content, message):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match=message) as error:
            read_sentences(path)
        assert "\n" not in str(error.value)

    def test_ambiguous_csv_files_are_rejected(self, tmp_path):
        path = tmp_path / "s.csv"
        for content, message in [
            ("sentence,sentence\nA b.,C d.\n", "two columns 'sentence'"),
            ("sentence,id\nYes, a b.,1\n", "line 2 has 3 cells, the header 2; put quotes around"),
            ('sentence\n"A b.\nC d.\n', "line 3 is not CSV"),
            ("sentence\n" + "a " * 70_000 + "\n", "line 2 is not CSV"),
        ]:
            path.write_text(content)
            with pytest.raises(InputError) as error:
                read_sentences(path)
            assert message in str(error.value)

    def test_long_lines_and_carriage_returns_are_rejected(self, tmp_path):
        path = tmp_path / "s.txt"
        path.write_text("a " * 70_000 + "\n")
        with pytest.raises(InputError, match="line 1 has 140000 characters, more than the 20000"):
            read_sentences(path)
        path.write_bytes(b"A b.\rC d.\r")
        with pytest.raises(InputError, match="line 1 contains a carriage return"):
            read_sentences(path)

    def test_missing(self, tmp_path):
        with pytest.raises(InputError, match="there is no file"):
            read_sentences(tmp_path / "a.txt")


class TestRules:
    @pytest.mark.parametrize(
        ("text", "rules", "objection"),
        [
            ("The dog saw rain.", SentenceRules(5, 9), "length"),
            ("The dog saw rain.", SentenceRules(1, 3), "length"),
            ("The dog saw rain.", FOUR, None),
            ("The dog saw rain", FOUR, "punctuation"),
            ("The dog saw rain!?", FOUR, "punctuation"),
            ("The dog, saw rain.", FOUR, "punctuation"),
            ('"The dog saw rain.', FOUR, "punctuation"),
            ("The dog -- rain.", FOUR, "punctuation"),
            ("The dog,' saw rain.", FOUR, "punctuation"),
            ("The dog's well-known rain.", FOUR, None),
            ("The dog saw rain?", SentenceRules(4, 4, final_marks="."), "punctuation"),
            ("The dog, saw rain", SentenceRules(4, 4, punctuation="any"), None),
            ("The dog saw Dog.", SentenceRules(4, 4, distinct=True), "repeated word"),
            ("The dog saw Dog.", FOUR, None),
            ("The dog saw the rain.", SentenceRules(5, 5, distinct=True), None),
            ("The dog the rain.", SentenceRules(4, 4, distinct=True, repeatable=frozenset()),
             "repeated word"),
        ],
    )  # fmt: skip
    def test_rejection_reason(self, text, rules, objection):
        assert rules.rejection_reason(text) == objection

    def test_vocabulary(self):
        vocabulary = Vocabulary.from_words(["The", "dog", "saw", "rain"])
        rules = SentenceRules(1, 9, vocabulary=vocabulary, distinct=True)
        assert rules.rejection_reason("The dog saw rain.") is None
        assert rules.rejection_reason("The dog saw The rain.") == "word outside the vocabulary"
        assert rules.rejection_reason("dog saw rain.") == "word outside the vocabulary"
        assert rules.rejection_reason("The dog saw dog.") == "repeated word"

    def test_bad_lengths(self):
        with pytest.raises(InputError, match="no sentence has 9 to 8 words"):
            SentenceRules(9, 8)

    def test_bad_punctuation_rule(self):
        with pytest.raises(UnknownNameError, match="did you mean 'final-only'"):
            SentenceRules(punctuation="final")


class TestSample:
    def test_all_in_order_without_duplicates(self):
        text = [*TEXT, "the Dog saw  rain!", "Too short.", "The dog (saw) rain."]
        sample, report = sample_sentences(text, rules=FOUR)
        assert sample == TEXT
        assert (report.n_read, report.n_eligible, report.n_sampled) == (9, 6, 6)
        assert report.n_dropped == {"duplicate": 1, "length": 1, "punctuation": 1}
        assert str(report) == (
            "9 sentences read; dropped: 1 duplicate, 1 length, 1 punctuation; 6 left, 6 sampled"
        )

    def test_larger_sample_extends_smaller_one(self):
        three, report = sample_sentences(iter(TEXT), n=3, seed=5, rules=FOUR)
        assert report.n_sampled == 3
        assert sample_sentences(TEXT, n=3, seed=5, rules=FOUR)[0] == three
        assert sample_sentences(TEXT, n=5, seed=5, rules=FOUR)[0][:3] == three
        assert len(set(three)) == 3

    def test_each_sentence_is_equally_probable(self):
        n = 1200
        draws = [sample_sentences(TEXT, n=2, seed=s, rules=FOUR)[0] for s in range(n)]
        for text in TEXT:
            # Binomial(1200, 1/3) has standard deviation 16.3; four of them.
            assert abs(sum(text in draw for draw in draws) - n / 3) < 66

    def test_too_few(self):
        with pytest.raises(InfeasibleError, match=r"7 sentences .* only 6 of 6 .*dropped: none"):
            sample_sentences(TEXT, n=7, rules=FOUR)
        with pytest.raises(InfeasibleError, match=r"some sentences .*\(dropped: 6 length\)"):
            sample_sentences(TEXT)

    def test_bad_number(self):
        with pytest.raises(InputError, match="at least 1, got 0"):
            sample_sentences(TEXT, n=0)

    def test_pool_has_500_distinct_eight_word_sentences(self):
        sample, _ = sample_sentences(pool(), n=500, seed=1, rules=SentenceRules(distinct=True))
        assert len(sample) == 500


@pytest.mark.parametrize(("text", "limits"), [("8", (8, 8)), ("6-12", (6, 12))])
def test_length_range(text, limits):
    assert parse_length_range(text) == limits


@pytest.mark.parametrize("text", ["", "six", "6-", "-8", "6-x"])
def test_bad_length_range(text):
    with pytest.raises(InputError, match=r"is not a length in words; write 8 or 6-12"):
        parse_length_range(text)


def test_read_words(tmp_path):
    path = tmp_path / "block.txt"
    path.write_text("dog\n\n Cat \n")
    assert read_words(path) == ("dog", "Cat")
