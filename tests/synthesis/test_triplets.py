from pathlib import Path

import pytest
from tables import TableModel

from contstim.errors import InputError, OutputError, UnknownWordError
from contstim.synthesis.triplets import ModelPair, Triplet, triplets
from contstim.synthesis.writing import COLUMNS, write_triplets
from contstim.text import WordList
from contstim.vocabulary import Vocabulary

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


def test_finished_rows_are_not_made_again(pair: ModelPair, tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    generator = write_triplets([pair], SENTENCES, out, settings=SETTINGS, seed=1)
    first, second = next(generator), next(generator)
    generator.close()
    text = out.read_text("utf-8")
    # A mark that only survives if the row is kept as it is.
    out.write_text(text.replace(first.synthetic_1, "Kept as it was."), "utf-8")
    rows = _write(pair, out)
    assert rows[0].synthetic_1 == "Kept as it was."
    assert rows[1] == second


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
