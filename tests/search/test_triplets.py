import re
from pathlib import Path
from typing import Any

import pytest

from contstim.errors import InputError, OutputError, UnknownWordError
from contstim.models.toy import TableModel
from contstim.search.triplets import ModelPair, Triplet, triplets
from contstim.search.writing import COLUMNS, write_triplets
from contstim.text.sentence import WordList
from contstim.text.vocabulary import Vocabulary

LOWER = ["the", "dog", "saw", "cat", "ran", "home", "red", "big", "man", "of", "ate", "fish"]
UPPER = ["The", "Dog", "Big", "Red"]
VOCABULARY = Vocabulary(WordList.of(UPPER), WordList.of(LOWER), frozenset({"the", "of"}))
SENTENCES = ["The dog saw the cat.", "Big fish ate the man.", "The red cat ran home.", "Dog ran."]
SETTINGS = {"seed": 1}


@pytest.fixture(scope="module")
def pair() -> ModelPair:
    words = [*LOWER, *UPPER]
    return ModelPair.of(TableModel(words, 11), TableModel(words, 12), VOCABULARY)


def _write(pair: ModelPair, out: Path | None, **options: object) -> list[Triplet]:
    settings = {**SETTINGS, **options}
    return list(write_triplets([pair], SENTENCES, out, settings=settings, seed=1, **options))


def test_sentence_1_is_what_model_1_prefers(pair: ModelPair) -> None:
    (found,) = triplets(pair, SENTENCES[0])
    for k, model in ((1, pair.model_1), (2, pair.model_2)):
        for kind in ("natural", "synthetic_1", "synthetic_2"):
            assert getattr(found, f"{kind}_lp_{k}") == model.score([getattr(found, kind)])[0]
    assert found.synthetic_1_lp_1 >= found.natural_lp_1
    assert found.synthetic_1_lp_2 < found.natural_lp_2
    assert found.synthetic_2_lp_2 >= found.natural_lp_2
    assert found.synthetic_2_lp_1 < found.natural_lp_1
    assert found.opposed
    # Eq. 4, written out.
    fall = found.natural_lp_2 - found.synthetic_1_lp_2 + found.natural_lp_1 - found.synthetic_2_lp_1
    assert found.controversiality == pytest.approx(fall)


def test_several_triplets_from_one_sentence_differ(pair: ModelPair) -> None:
    found = triplets(pair, SENTENCES[0], per_sentence=3)
    texts = {(t.synthetic_1, t.synthetic_2) for t in found}
    assert len(texts) == len(found) > 1
    assert [t.repeat for t in found] == list(range(1, len(found) + 1))


def test_a_minimum_drop_leaves_out_what_falls_less(pair: ModelPair) -> None:
    (found,) = triplets(pair, SENTENCES[0])
    drops = (
        found.natural_lp_2 - found.synthetic_1_lp_2,
        found.natural_lp_1 - found.synthetic_2_lp_1,
    )
    assert triplets(pair, SENTENCES[0], minimum_drop=min(drops)) == [found]
    assert triplets(pair, SENTENCES[0], minimum_drop=min(drops) + 1e-6) == []


def test_a_model_is_no_pair_with_itself(pair: ModelPair) -> None:
    with pytest.raises(InputError, match="a pair needs two different models, got .table:11"):
        ModelPair.of(pair.model_1, pair.model_1, VOCABULARY)


def test_the_file_reads_back(pair: ModelPair, tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    rows = _write(pair, out)
    lines = out.read_text("utf-8").splitlines()
    assert lines[0] == ",".join(COLUMNS)
    assert len(lines) == len(rows) + 1
    assert _write(pair, out) == rows
    assert _write(pair, None) == rows


@pytest.mark.parametrize("per_sentence", [1, 3])
def test_an_interrupted_file_is_continued_to_the_same_bytes(
    pair: ModelPair, tmp_path: Path, per_sentence: int
) -> None:
    whole = tmp_path / "whole.csv"
    _write(pair, whole, per_sentence=per_sentence)
    expected = whole.read_bytes()
    meta = (tmp_path / "whole.csv.meta.json").read_bytes()
    # Cut in the header, in rows, in numbers, at row ends.
    cuts = {0, 5, *range(40, len(expected), 151), len(expected) - 1, len(expected)}
    for length in sorted(cuts):
        out = tmp_path / f"cut{length}.csv"
        out.write_bytes(expected[:length])
        (tmp_path / f"cut{length}.csv.meta.json").write_bytes(meta)
        _write(pair, out, per_sentence=per_sentence)
        assert out.read_bytes() == expected


def test_finished_rows_are_not_made_again(
    pair: ModelPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "triplets.csv"
    whole = _write(pair, tmp_path / "whole.csv")
    generator = write_triplets([pair], SENTENCES, out, settings=SETTINGS, seed=1)
    first, second = next(generator), next(generator)
    generator.close()
    made = []

    def note(pair: ModelPair, sentence: str, **options: Any) -> list[Triplet]:
        made.append(sentence)
        return triplets(pair, sentence, **options)

    monkeypatch.setattr("contstim.search.writing.triplets", note)
    assert _write(pair, out) == whole
    assert first.natural not in made
    assert second.natural in made


def _lines(text: str, *order: int) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([lines[i] for i in order])


CHANGES = {
    "a number": (lambda t: re.sub(r"-\d+\.\d+", "-1.5", t, count=1), "line 2"),
    "no number": (lambda t: re.sub(r"-\d+\.\d+", "abc", t, count=1), "line 2"),
    "order": (lambda t: _lines(t, 0, 2, 1, 3), "line 3"),
    "a row twice": (lambda t: _lines(t, 0, 1, 2, 2, 3), "line 4"),
    "a sentence": (lambda t: t.replace("The dog saw the cat.", "The cat saw the dog."), "line 2"),
    "a column's name": (lambda t: t.replace("synthetic_1", "mine", 1), "line 1"),
    "a column more": (lambda t: t.replace("\n", ",x\n"), "line 1"),
    "a cell less": (lambda t: t.replace(",1\n", "\n", 1), "line 2"),
    "semicolons": (lambda t: t.replace(",", ";"), "line 1"),
    "a byte-order mark": (lambda t: "\ufeff" + t, "line 1"),
    "a NUL": (lambda t: _lines(t, 0) + "\0\n", "line 2"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_changed_by_hand_is_not_continued(
    pair: ModelPair, tmp_path: Path, change: str
) -> None:
    out = tmp_path / "triplets.csv"
    _write(pair, out)
    edit, place = CHANGES[change]
    out.write_text(edit(out.read_text("utf-8")), "utf-8")
    before = out.read_bytes()
    with pytest.raises(InputError) as error:
        _write(pair, out)
    assert f"{out}, {place} is not as it was written" in str(error.value)
    assert out.read_bytes() == before


def test_a_row_removed_by_hand_stays_removed(pair: ModelPair, tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    rows = _write(pair, out)
    lines = out.read_text("utf-8").splitlines(keepends=True)
    out.write_text("".join([lines[0], *lines[2:]]), "utf-8")
    assert _write(pair, out) == rows[1:]


@pytest.mark.parametrize("meta", [b"", b"[]", b"null", b"3", b'"x"', b"\xff\xfe", b"{"])
def test_damaged_settings(pair: ModelPair, tmp_path: Path, meta: bytes) -> None:
    out = tmp_path / "triplets.csv"
    _write(pair, out)
    (tmp_path / "triplets.csv.meta.json").write_bytes(meta)
    with pytest.raises(InputError, match=r"no triplets.csv.meta.json beside it that can be read"):
        _write(pair, out)


def test_two_runs_do_not_write_one_file(pair: ModelPair, tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    first = write_triplets([pair], SENTENCES, out, settings=SETTINGS, seed=1)
    row = next(first)
    with pytest.raises(InputError, match="another run is writing .*triplets.csv; wait for it"):
        _write(pair, out)
    rows = [row, *first]
    assert _write(pair, out) == rows


def test_a_pair_is_given_once(pair: ModelPair) -> None:
    reverse = ModelPair(pair.model_2, pair.model_1, pair.proposal)
    for other in (pair, reverse):
        with pytest.raises(InputError, match="is given twice"):
            list(write_triplets([pair, other], SENTENCES, None, settings=SETTINGS))


@pytest.mark.parametrize("drop", [-1.0, float("nan"), float("inf")])
def test_a_drop_that_cannot_be_meant(pair: ModelPair, drop: float) -> None:
    with pytest.raises(InputError, match="the minimum drop must be a number of nats from 0 up"):
        triplets(pair, SENTENCES[0], minimum_drop=drop)


def test_a_file_of_other_settings_is_left_alone(pair: ModelPair, tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    _write(pair, out)
    before = out.read_bytes()
    with pytest.raises(InputError) as error:
        list(write_triplets([pair], SENTENCES, out, settings={"seed": 2}, seed=2))
    assert str(error.value) == (
        f"{out} was made with another seed (1, now 2); choose another output, or remove it"
    )
    foreign = tmp_path / "foreign.csv"
    foreign.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"exists and has no foreign.csv.meta.json beside it"):
        _write(pair, foreign)
    assert out.read_bytes() == before
    assert foreign.read_text() == "a,b\n1,2\n"


def test_nothing_is_written_for_sentences_that_cannot_be_used(
    pair: ModelPair, tmp_path: Path
) -> None:
    out = tmp_path / "triplets.csv"
    with pytest.raises(UnknownWordError, match="does not know 'zebra'"):
        list(write_triplets([pair], [*SENTENCES, "The zebra ran."], out, settings=SETTINGS))
    with pytest.raises(InputError, match="needs at least two words, got 'Dog.'"):
        list(write_triplets([pair], [*SENTENCES, "Dog."], out, settings=SETTINGS))
    assert list(tmp_path.iterdir()) == []
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OutputError, match="^cannot write .*file/t.csv: .*; choose another output$"):
        _write(pair, blocked / "t.csv")
