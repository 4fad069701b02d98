"""Vocabularies from words, texts, frequencies and files.

Tests `contstim.text.vocabulary`, `contstim.text.word_rules`, `contstim.text.word_tables` and
`contstim.text.frequencies`.
"""

import gzip
import io
import pickle

import numpy as np
import pytest

from contstim.errors import InputError, OutputError, UnknownNameError
from contstim.text import Sentence, WordList, find_repeats
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import Vocabulary
from contstim.text.word_rules import WordRules

TEXT = """\
The dog saw a cat in London.
A cat ran. The dog's owner saw nothing well-known!
I THE dog and I saw 3 birds -- "Birds," he said.
"""


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


class Model:
    def __init__(self, spec, words):
        self.spec = spec
        self.words = set(words)

    def in_vocabulary(self, words):
        return np.array([word in self.words for word in words])


class TestFromWords:
    def test_case_determines_the_position(self):
        vocabulary = Vocabulary.from_words(["the", "The", "I", "dog", "London", "--", ".", "b"])
        assert vocabulary.first.words == ("The", "I", "London")
        assert vocabulary.elsewhere.words == ("the", "I", "dog")

    def test_names_have_no_lower_case_form(self):
        rules = WordRules(names=True)
        vocabulary = Vocabulary.from_words(["the", "The", "dog", "London"], rules=rules)
        assert vocabulary.elsewhere.words == ("the", "dog", "London")

    def test_derived_first_words_have_frequencies(self):
        vocabulary = Vocabulary.from_words(
            ["The", "the", "dog"],
            frequencies={"The": 0.1, "the": 0.3, "dog": 0.2, "unused": 0.05},
            rules=WordRules(derive_first=True),
        )
        assert vocabulary.first.words == ("The", "Dog")
        assert vocabulary.frequencies == {"The": 0.1, "the": 0.3, "dog": 0.2, "Dog": 0.2}

    def test_counts_become_relative_frequencies(self):
        vocabulary = Vocabulary.from_words(["A", "cat"], frequencies={"A": 3, "cat": 1, "--": 4})
        assert vocabulary.frequencies == {"A": 3 / 8, "cat": 1 / 8}

    @pytest.mark.parametrize(
        ("characters", "kept"),
        [
            ("letters", ("dog", "naïve")),
            ("marks", ("dog", "don't", "well-known", "naïve")),
            ("any", ("dog", "don't", "well-known", "naïve", "1914", "x2")),
        ],
    )
    def test_characters_rule_selects_words(self, characters, kept):
        words = ["The", "dog", "don't", "well-known", "naïve", "1914", "x2", "--", "end.", "'"]
        rules = WordRules(characters=characters)
        assert Vocabulary.from_words(words, rules=rules).elsewhere.words == kept

    def test_upper_case_duplicates_are_dropped(self):
        vocabulary = Vocabulary.from_words(["The", "THE", "dog", "DOG", "BBC"])
        assert vocabulary.first.words == ("The", "BBC")

    def test_words_without_case_are_allowed_everywhere(self):
        rules = WordRules.for_language("hi")
        vocabulary = Vocabulary.from_words(["यह", "किताब", "है"], rules=rules)
        assert vocabulary.first.words == vocabulary.elsewhere.words == ("यह", "किताब", "है")
        assert vocabulary.repeatable == frozenset()

    def test_excluded_words_are_left_out_in_any_case(self):
        rules = WordRules(exclude=frozenset({"DOG"}))
        assert "Dog" not in Vocabulary.from_words(["The", "Dog", "a"], rules=rules).first

    def test_vocabulary_without_first_words_is_rejected(self):
        with pytest.raises(InputError, match=r"no word allowed first.*derive") as error:
            Vocabulary.from_words(["the", "dog"])
        assert "\n" not in str(error.value)

    def test_vocabulary_without_later_words_is_rejected(self):
        with pytest.raises(InputError, match="no word allowed after the first"):
            Vocabulary.from_words(["The", "Dog"])

    def test_empty_vocabulary_is_rejected(self):
        with pytest.raises(InputError, match="vocabulary is empty"):
            Vocabulary.from_words([])

    def test_unknown_kind_of_characters(self):
        with pytest.raises(UnknownNameError, match="did you mean 'letters'"):
            WordRules(characters="letter")


class TestVocabulary:
    def test_words_at_returns_the_same_objects(self):
        vocabulary = Vocabulary(WordList(("The",)), WordList(("dog",)))
        assert vocabulary.words_at(0) is vocabulary.first
        assert vocabulary.words_at(1) is vocabulary.words_at(7) is vocabulary.elsewhere

    def test_find_repeats_ignores_case_and_repeatable_words(self):
        words = Sentence.parse("The dog saw the Dog in the box in it and it").words
        assert find_repeats(words, ENGLISH.repeatable) == ["dog", "it"]

    @pytest.mark.parametrize("word", ["", "two words", "end.", '"open'])
    def test_words_with_space_or_punctuation_are_refused(self, word):
        with pytest.raises(InputError, match="without white space or outer punctuation"):
            Vocabulary(WordList(("The",)), WordList((word,)))

    @pytest.mark.parametrize("value", [-0.1, 1.5, float("nan")])
    def test_frequencies_are_between_0_and_1(self, value):
        with pytest.raises(InputError, match="relative frequency of 'dog'"):
            Vocabulary(WordList(("The",)), WordList(("dog",)), frequencies={"dog": value})

    def test_default_repeatable_words(self):
        assert 42 <= len(ENGLISH.repeatable) <= 60
        assert {"the", "a", "an", "of", "in", "on"} <= ENGLISH.repeatable
        assert not {"and", "is", "he", "it"} & ENGLISH.repeatable

    def test_repr_is_short_and_pickling_keeps_the_words(self):
        vocabulary = Vocabulary.from_words(["The", "dog"])
        assert repr(vocabulary).startswith("<Vocabulary 1 words first, 1 elsewhere")
        assert pickle.loads(pickle.dumps(vocabulary)).digest == vocabulary.digest


class TestFromText:
    def test_positions_and_frequencies(self, text):
        vocabulary = Vocabulary.from_text(text)
        # "Birds" follows no final mark; "London" is a name; "THE" is a shout.
        assert vocabulary.first.words == ("The", "I", "A")
        elsewhere = "dog saw a cat in ran nothing I and birds he said owner"
        assert sorted(vocabulary.elsewhere) == sorted(elsewhere.split())
        total = len(TEXT.split())
        assert vocabulary.frequencies["dog"] == pytest.approx(2 / total)
        assert vocabulary.frequencies["The"] == pytest.approx(2 / total)

    def test_names_seen_inside_a_sentence(self, text):
        rules = WordRules(names=True)
        vocabulary = Vocabulary.from_text(text, rules=rules)
        assert "London" in vocabulary.elsewhere
        assert "The" not in vocabulary.elsewhere

    def test_size_keeps_the_most_frequent(self, text):
        vocabulary = Vocabulary.from_text(text, size=4)
        # saw 3; then The, dog, cat and I with 2, of which the last seen falls out.
        assert vocabulary.elsewhere.words == ("saw", "dog", "cat")
        assert vocabulary.first.words == ("The",)

    def test_minimum_count(self, text):
        by_count = Vocabulary.from_text(text, min_count=2)
        assert set(by_count.elsewhere) == {"saw", "dog", "cat", "I"}

    def test_derive_first(self, text):
        vocabulary = Vocabulary.from_text(text, rules=WordRules(derive_first=True))
        assert {"The", "Dog", "Cat"} <= set(vocabulary.first)

    def test_gzip_and_several_files(self, text, tmp_path):
        packed = tmp_path / "more.txt.gz"
        with gzip.open(packed, "wt", encoding="utf-8") as file:
            file.write("Then zebras came.\r\n")
        vocabulary = Vocabulary.from_text([text, packed])
        assert "Then" in vocabulary.first
        assert "zebras" in vocabulary.elsewhere

    def test_standard_input(self, monkeypatch):
        stdin = io.TextIOWrapper(io.BytesIO(b"The dog ran."), encoding="ascii")
        monkeypatch.setattr("sys.stdin", stdin)
        assert Vocabulary.from_text("-").elsewhere.words == ("dog", "ran")

    def test_missing_file(self, tmp_path):
        with pytest.raises(InputError, match=r"there is no file .*none\.txt"):
            Vocabulary.from_text(tmp_path / "none.txt")

    @pytest.mark.parametrize(
        "content", [b"plain text", gzip.compress(b"The dog ran.\n", mtime=0)[:-9]]
    )
    def test_broken_gzip(self, tmp_path, content):
        path = tmp_path / "broken.txt.gz"
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a whole gzip file"):
            Vocabulary.from_text(path)

    def test_text_without_words(self, tmp_path):
        path = tmp_path / "empty.txt"
        path.write_text("\n \n")
        with pytest.raises(InputError, match="empty"):
            Vocabulary.from_text(path)

    def test_size_below_one(self, text):
        with pytest.raises(InputError, match="at least 1, got 0"):
            Vocabulary.from_text(text, size=0)


class TestFromWordfreq:
    def test_english(self):
        vocabulary = Vocabulary.from_wordfreq("en", size=1000)
        assert {"The", "I", "Dog"} <= set(vocabulary.first)
        assert "I" in vocabulary.elsewhere
        assert "i" not in vocabulary.elsewhere
        assert len(vocabulary.elsewhere) == 1000
        frequencies = [vocabulary.frequencies[word] for word in vocabulary.elsewhere]
        assert frequencies == sorted(frequencies, reverse=True)
        assert vocabulary.frequencies["The"] == vocabulary.frequencies["the"] > 0.04

    def test_parts_of_contractions_are_excluded(self):
        vocabulary = Vocabulary.from_wordfreq("en", size=8000)
        assert not {"don", "haven", "ll", "ve"} & {*vocabulary.elsewhere}
        assert {"won", "can", "shall", "we"} <= {*vocabulary.elsewhere}

    def test_unknown_language(self):
        with pytest.raises(UnknownNameError, match="unknown wordfreq language 'xx'"):
            Vocabulary.from_wordfreq("xx")


class TestRestrict:
    def test_restrict_keeps_words_known_to_all(self):
        vocabulary = Vocabulary.from_words(
            ["The", "A", "dog", "cat", "cow"], frequencies={"dog": 0.1, "cow": 0.2}
        )
        models = [Model("one", ["The", "A", "dog", "cat"]), Model("two", ["The", "dog"])]
        left, left_out = vocabulary.restrict(models)
        assert left.first.words == ("The",)
        assert left.elsewhere.words == ("dog",)
        assert left.frequencies == {"dog": 0.1}
        assert left_out == {"one": 1, "two": 3}

    def test_restriction_to_no_word_is_rejected(self):
        vocabulary = Vocabulary.from_words(["The", "dog"])
        with pytest.raises(InputError, match=r"allowed first \(of 2 words 1 unknown to tiny\)"):
            vocabulary.restrict([Model("tiny", ["dog"])])


class TestFiles:
    def test_save_and_read_round_trip(self, tmp_path):
        vocabulary = Vocabulary.from_words(
            ["The", "the", "London", "dog"],
            frequencies={"The": 0.1, "dog": 1 / 3},
            rules=WordRules(names=True, repeatable=frozenset({"the", "Betwixt"})),
        )
        vocabulary.save(tmp_path / "vocabulary.csv")
        again = Vocabulary.read(tmp_path / "vocabulary.csv")
        assert again.first.words == vocabulary.first.words
        assert again.elsewhere.words == vocabulary.elsewhere.words == ("the", "London", "dog")
        assert again.repeatable == frozenset({"the", "betwixt"})
        assert again.frequencies == vocabulary.frequencies
        assert again.digest == vocabulary.digest

    def test_plain_list(self, tmp_path):
        path = tmp_path / "words.txt"
        path.write_text("\ufeffThe\nthe\n\nword\n", encoding="utf-8")
        vocabulary = Vocabulary.read(path)
        assert vocabulary.first.words == ("The",)
        assert vocabulary.elsewhere.words == ("the", "word")

    def test_csv_with_counts_only(self, tmp_path):
        path = tmp_path / "words.csv"
        path.write_text("word,frequency\nThe,30\ndog,10\n\ncat,\n")
        vocabulary = Vocabulary.read(path)
        assert vocabulary.frequencies == {"The": 0.75, "dog": 0.25}
        assert vocabulary.repeatable == ENGLISH.repeatable

    def test_csv_with_positions(self, tmp_path):
        path = tmp_path / "words.csv"
        path.write_text("word,first\nthe,yes\ndog,no\n")
        vocabulary = Vocabulary.read(path)
        assert vocabulary.first.words == ("the",)
        assert vocabulary.elsewhere.words == ("dog",)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("term,frequency\nThe,1\n", "no column 'word', only term, frequency"),
            ("", "no column 'word', only nothing"),
            ("word,first\nThe,maybe\n", "'first' of 'The' is 'maybe'; write 1 or 0"),
            ("word,frequency\nThe,often\n", "'frequency' of 'The' is 'often', not a number"),
            ("word,first\nThe,1\n,1\n", "row 3 has no word"),
        ],
    )
    def test_invalid_csv_files_are_rejected(self, tmp_path, content, message):
        path = tmp_path / "words.csv"
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            Vocabulary.read(path)

    def test_unwritable_path_is_reported(self, tmp_path):
        with pytest.raises(OutputError, match="cannot write"):
            Vocabulary.from_words(["The", "dog"]).save(tmp_path / "none" / "vocabulary.csv")


class TestOtherLanguages:
    def test_german_nouns_keep_capitals(self, tmp_path):
        text = tmp_path / "de.txt"
        text.write_text("Der Hund sieht Anna.\nEr ruft den Hund, und Sie gehen.\n", "utf-8")
        words = Vocabulary.from_text(text, rules=WordRules.for_language("de"))
        assert {"Hund", "sieht", "Sie", "den"} <= {*words.elsewhere}
        assert not {"Anna", "hund", "Der"} & {*words.elsewhere}
        assert {*words.first} == {"Der", "Er", "Hund", "Sie"} - {"Hund", "Sie"}
        with pytest.raises(InputError, match="wordfreq lists the words of German in lower case"):
            Vocabulary.from_wordfreq("de")

    def test_french_elided_words(self, tmp_path):
        text = tmp_path / "fr.txt"
        text.write_text("L'homme dort.\nIl voit l'eau, qu'il aime\u202f!\n", "utf-8")
        words = Vocabulary.from_text(text, rules=WordRules.for_language("fr"))
        assert words.first.words == ("L'", "Il")
        assert {"l'", "qu'", "eau", "il", "homme"} <= {*words.elsewhere}
        listed = Vocabulary.from_wordfreq("fr", size=200)
        assert {"l'", "qu'"} <= {*listed.elsewhere}
        assert "L'" in listed.first
        assert not {"l", "qu"} & {*listed.elsewhere}
        with pytest.raises(InputError, match="which French splits into l' and eau"):
            Vocabulary(words.first, WordList.from_words(["l'eau"]), language=words.language)

    def test_turkish_first_forms(self, tmp_path):
        listed = Vocabulary.from_wordfreq("tr", size=400)
        assert "İçin" in listed.first
        assert not [word for word in listed.first if word.startswith("I") and word[1:2] == "̇"]
        path = tmp_path / "tr.csv"
        listed.save(path)
        again = Vocabulary.read(path)
        assert (again.language.code, again.digest) == ("tr", listed.digest)

    def test_hebrew_words_are_allowed_everywhere(self, tmp_path):
        text = tmp_path / "he.txt"
        text.write_text('הכלב ישן.\nהוא ליד צה"ל.\n', "utf-8")
        words = Vocabulary.from_text(text, rules=WordRules.for_language("he"))
        assert words.first.words == ("הכלב", "הוא")
        assert {"הכלב", "ישן", "ליד"} <= {*words.elsewhere}
