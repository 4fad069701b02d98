"""The bundled words, options that filter a vocabulary, and word lists."""

from dataclasses import replace
from pathlib import Path

import pytest
from nltk import data
from nltk.tag.perceptron import PerceptronTagger
from wordfreq import zipf_frequency

from contstim import Sentence, Vocabulary, WordList, WordOptions, bundled_vocabulary, load_model
from contstim.errors import InputError, UnknownNameError
from contstim.text import word_options
from contstim.text.languages import ENGLISH, TURKISH, get_language
from contstim.text.word_options import offensive_words, same_class_words, tag_words

HERE = Path()

#: Words and names of which a part is offensive, or was taken for it: none may be found.
INNOCENT = """
    Scunthorpe Penistone Clitheroe Lightwater Cockermouth Middlesex Essex Sussex Wessex Arsenal
    assassinate assemble assembly assent assert assertion assess assessment asset assign
    assignment assist assistant associate assume assumption assure bass brass class classic
    compass embarrass glass grass harass massage mass massive pass passage passenger passion
    passport trespass cassette embassy ambassador hassle lass molasses sassafras casserole
    cockpit cockatoo cockle cockney hancock peacock shuttlecock woodcock cocktail weathercock
    circumference document cucumber accumulate incumbent succumb circumstance scrap scrape
    title titan titanic titbit constitution institute substitute appetite competitor entitle
    petition repetition restitution partition button butter rebuttal attribute tribute
    analysis analyst banal canal manual analogue analogy canalside arsenic parse coarse hoarse
    sparse rehearse sextant sextet sexton shitake matsushita mishit swank hoe phoenix shoe
    grape drape scrapes therapist trapeze skyscraper saffron raccoon tycoon cocoon
    dickens benedick predicament snigger denigrate finger vinegar mustang tangle
    spicy spice suspicious auspicious conspicuous hospice homework homogeneous pussyfoot
    shell hello othello seashell michelle magnum hoard
""".split()  # noqa: SIM905 - as a list literal this is long


@pytest.fixture(scope="module")
def bundled() -> Vocabulary:
    return bundled_vocabulary()


def test_bundled_words_satisfy_their_rules(bundled: Vocabulary) -> None:
    listed = offensive_words()
    assert len(bundled.elsewhere) > 11_000
    every = {word.lower() for word in (*bundled.first, *bundled.elsewhere)}
    assert not every & ENGLISH.fragments
    # "sh" is none.
    assert [word for word in sorted(every) if not set(word) & set("aeiouy")] == []
    for word in bundled.elsewhere:
        assert listed.get(word.lower(), 0) == 0, word
        assert zipf_frequency(word, "en") >= 3.2, word
        assert word == "I" or (word.islower() and (len(word) > 1 or word == "a")), word
        assert bundled.tags[word.lower()], word
    for word in bundled.first:
        assert word == "I" or word.lower() in bundled.elsewhere, word
    # What the books had before.
    for word in ("des", "ole", "doc", "yer", "thou", "john", "monsieur", "mr"):
        assert word not in bundled.elsewhere


def test_bundled_words_are_in_the_vocabulary_of_trigram(bundled: Vocabulary) -> None:
    model = load_model("contstim:trigram")
    assert model.in_vocabulary([*bundled.first, *bundled.elsewhere]).all()


def test_parts_of_words_are_not_offensive() -> None:
    assert len(INNOCENT) >= 100
    # A word that the list itself has is judged by its level, not by its parts.
    kept = WordOptions(offensive=1, casing="sentence").filter(
        Vocabulary.from_words([*map(str.lower, INNOCENT), "The"]), HERE
    )
    assert {word.lower() for word in INNOCENT} <= set(kept.elsewhere)


def test_offensive_levels() -> None:
    inside = ["fire", "idiot", "drug", "dog", "drug-money"]
    vocabulary = Vocabulary(WordList.from_words(["The"]), WordList.from_words(inside))
    kept = [
        set(WordOptions(offensive=level).filter(vocabulary, HERE).elsewhere) for level in (2, 1, 0)
    ]
    both = {"fire", "drug", "dog", "drug-money"}
    assert kept == [both, {"fire", "dog"}, {"dog"}]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    (tmp_path / "block.txt").write_text("DOG\nsea\n")
    (tmp_path / "allow.txt").write_text("zyzzyva idiot\n")
    return tmp_path


WORDS = Vocabulary(
    WordList.from_words(["The", "Dog", "Paris", "I"]),
    WordList.from_words(["the", "dog", "dog's", "sea-dog", "Rome", "I", "idiot", "xylem", "cat"]),
)


def test_allow_and_block_lists_override_other_options(lists: Path) -> None:
    options = WordOptions(min_zipf=3, offensive=1, allow=("allow.txt",), block=("block.txt",))
    kept = options.filter(WORDS, lists)
    assert kept.first.words == ("The", "Paris", "I", "Zyzzyva")
    assert kept.elsewhere.words == ("the", "Rome", "I", "idiot", "cat", "zyzzyva")
    with pytest.raises(InputError, match="'dog' is allowed and blocked; remove it from one list"):
        WordOptions(allow=("block.txt",), block=("block.txt",)).filter(WORDS, lists)
    with pytest.raises(InputError, match="the edits list 'Sea', which is blocked"):
        options.check_not_blocked(["cat", "Sea"], lists)


def test_allowed_words_keep_the_case_of_their_list(tmp_path: Path) -> None:
    (tmp_path / "allow.txt").write_text("London\nrome\ncat's-paw\n")
    for names in (None, False, True):
        vocabulary = Vocabulary(
            WordList.from_words(["The", "London"]), WordList.from_words(["the", "Rome"])
        )
        kept = WordOptions(names=names, allow=("allow.txt",)).filter(vocabulary, tmp_path)
        assert kept.first.words == ("The", "London", "Cat's-paw")
        assert kept.elsewhere.words == ("the", "Rome", "cat's-paw", "London")
    lower = WordOptions(casing="lower", allow=("allow.txt",)).filter(vocabulary, tmp_path)
    assert lower.elsewhere.words == ("the", "rome", "cat's-paw", "london")


def test_blocked_parts_override_allowed_compounds(tmp_path: Path) -> None:
    (tmp_path / "allow.txt").write_text("sea-dog\nidiot-proof\nsea-cat\n")
    (tmp_path / "block.txt").write_text("dog\n")
    options = WordOptions(allow=("allow.txt",), block=("block.txt",), offensive=1)
    kept = options.filter(WORDS, tmp_path)
    # What is only offensive may be allowed.
    assert kept.elsewhere.words == ("the", "Rome", "I", "xylem", "cat", "idiot-proof", "sea-cat")
    assert "Sea-dog" not in kept.first


def test_word_lists_are_matched_by_the_language(tmp_path: Path) -> None:
    (tmp_path / "block.txt").write_text("ISIL\n")
    (tmp_path / "allow.txt").write_text("Izmir\nİYİ\n", "utf-8")
    turkish = Vocabulary(
        WordList.from_words(["Bir"]),
        WordList.from_words(["bir", "ısıl", "isil", "iyi"]),
        language=TURKISH,
    )
    options = WordOptions(allow=("allow.txt",), block=("block.txt",))
    assert options.filter(turkish, tmp_path).elsewhere.words == ("bir", "isil", "iyi", "Izmir")
    with pytest.raises(InputError, match="the edits list 'ısıl', which is blocked"):
        options.check_not_blocked(["isil", "ısıl"], tmp_path, TURKISH)


@pytest.mark.parametrize("code", ["eu", "et"])
def test_min_zipf_needs_frequencies(code: str) -> None:
    vocabulary = replace(WORDS, language=get_language(code))
    with pytest.raises(InputError) as error:
        WordOptions(min_zipf=3).filter(vocabulary, HERE)
    assert str(error.value) == (
        f"min_zipf = 3 needs word frequencies, and wordfreq has none for {code!r}; name the "
        "language as wordfreq does, or leave min_zipf out"
    )
    assert "dog" in WordOptions(casing="sentence").filter(vocabulary, HERE).elsewhere


def test_options_names_and_casing() -> None:
    without = WordOptions(names=False).filter(WORDS, HERE)
    assert without.first.words == ("The", "Dog", "I")
    assert "Rome" not in without.elsewhere
    assert "I" in without.elsewhere
    assert "Paris" in WordOptions(names=True).filter(WORDS, HERE).elsewhere
    assert "Cat" in WordOptions(casing="sentence").filter(WORDS, HERE).first
    lower = WordOptions(casing="lower").filter(WORDS, HERE)
    assert all(word == word.lower() for word in (*lower.first, *lower.elsewhere))


def test_default_options_change_nothing() -> None:
    assert WordOptions().filter(WORDS, HERE) is WORDS


def test_options_without_matching_word_are_rejected() -> None:
    with pytest.raises(
        InputError,
        match=r"no word of the vocabulary that is allowed first satisfies min_zipf = 9.5; relax",
    ):
        WordOptions(min_zipf=9.5).filter(WORDS, HERE)
    with pytest.raises(UnknownNameError, match="unknown part of speech 'nown'; .*noun"):
        WordOptions(part_of_speech=("nown",))
    with pytest.raises(UnknownNameError, match="unknown wordfreq language 'xx'; "):
        WordOptions(min_zipf=3, language="xx").filter(WORDS, HERE)
    with pytest.raises(InputError, match="min_zipf is nan"):
        WordOptions(min_zipf=float("nan"))


def test_parts_of_speech_of_the_bundled_words(bundled: Vocabulary) -> None:
    plural = WordOptions(part_of_speech=("NNS", "determiner")).filter(bundled, HERE)
    assert {"dogs", "houses", "the"} <= set(plural.elsewhere)
    assert not {"house", "quickly", "went"} & set(plural.elsewhere)


def test_same_class_words(bundled: Vocabulary) -> None:
    sentence = Sentence.parse("The dogs slept -- near Zanzibar.")
    tags = same_class_words(bundled, sentence, "tag")
    classes = same_class_words(bundled, sentence, "class")
    assert {"houses", "cats"} <= set(tags[1])
    assert "house" not in tags[1]
    assert "house" in classes[1]
    assert "quickly" not in classes[1]
    assert "The" in tags[0]
    assert "the" not in tags[0]
    assert tags[5] == classes[5] == ()
    assert 3 not in tags


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(data, "path", [str(tmp_path)])
    return tmp_path


def test_missing_nltk_tagger_is_reported(no_data: Path) -> None:
    with pytest.raises(InputError) as error:
        WordOptions(part_of_speech=("noun",)).filter(WORDS, HERE)
    assert str(error.value) == (
        "parts of speech of these words need NLTK's tagger, whose weights are not on this "
        "machine; run: python -m nltk.downloader averaged_perceptron_tagger_eng, or give the "
        "vocabulary a column 'tags'"
    )


def test_installed_nltk_tagger_is_found(no_data: Path) -> None:
    folder = no_data / "taggers" / "averaged_perceptron_tagger_eng"
    folder.parent.mkdir()
    trained = PerceptronTagger(load=False)
    taught = [("the", "DT"), ("dog", "NN"), ("ran", "VBD"), ("cat", "NN"), ("slept", "VBD")]
    trained.train([[pair] for pair in taught for _ in range(4)])
    trained.save_to_json(lang="eng", loc=str(folder))
    vocabulary = Vocabulary.from_words(["The", "dog", "cat", "ran", "the"])
    assert tag_words(vocabulary).tags == {
        "the": ("DT",), "dog": ("NN",), "cat": ("NN",), "ran": ("VBD",)
    }  # fmt: skip
    kept = WordOptions(part_of_speech=("noun", "determiner")).filter(vocabulary, HERE)
    assert kept.elsewhere.words == ("dog", "cat", "the")


def test_tags_round_trip_through_files(tmp_path: Path, bundled: Vocabulary) -> None:
    small = WordOptions(min_zipf=6).filter(bundled, HERE)
    small.save(tmp_path / "words.csv")
    again = Vocabulary.read(tmp_path / "words.csv")
    assert again.digest == small.digest
    assert again.tags["people"][0] == "NNS"


def test_readme_states_the_numbers_of_words(bundled: Vocabulary) -> None:
    text = " ".join(
        (Path(word_options.__file__).parents[1] / "data" / "README.md").read_text().split()
    )
    assert f"{len(bundled.elsewhere):,} words" in text
    assert f"{len(offensive_words()):,} English words and phrases" in text
