"""Reading score and triplet tables."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

from contstim.errors import InputError, MissingExtraError
from contstim.evaluation import evaluate
from contstim.models.registry import score_sentences
from contstim.selection import (
    fractional_ranks,
    read_scores,
    read_triplets,
    select_natural_pairs,
    select_set,
)
from contstim.selection.scores import given_scores, read_token_counts
from contstim.tables import TRIPLETS
from contstim.text import pool

WIDE = 'sentence,m1,m2\n"Yes, null",-1.5,-inf\nnull,-2,\n12,-3.25,-4\n'


def expected():
    return pd.DataFrame(
        {"m1": [-1.5, -2.0, -3.25], "m2": [-np.inf, np.nan, -4.0]},
        index=pd.Index(["Yes, null", "null", "12"], name="sentence"),
    )


def test_wide_table(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(WIDE, encoding="utf-8")
    pd.testing.assert_frame_equal(read_scores(path), expected(), check_index_type=False)


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WIDE.encode())))
    pd.testing.assert_frame_equal(read_scores("-"), expected(), check_index_type=False)


def test_long_table(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(
        "model,n_tokens,sentence,log_prob\nm1,3,A b,-1\nm2,3,A b,-2\nm1,2,null,-inf\n",
        encoding="utf-8",
    )
    table = read_scores(path)
    assert table.index.tolist() == ["A b", "null"]
    assert table.columns.tolist() == ["m1", "m2"]
    assert table.to_numpy()[0].tolist() == [-1.0, -2.0]
    assert table.loc["null", "m1"] == -np.inf
    assert np.isnan(table.loc["null", "m2"])


def test_rows_that_come_again_count_once(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("sentence,model,log_prob\na,m1,-1\na,m2,-2\nb,m1,-3\nb,m2,-4\na,m1,-1\n")
    assert read_scores(path).to_numpy().tolist() == [[-1.0, -2.0], [-3.0, -4.0]]


FALLING = """\
sentence,model,log_prob,n_tokens,unit,better
a,m1,8,3,bits,lower
b,m1,2,4,bits,lower
a,m2,-8,3,nats,higher
b,m2,-2,4,nats,higher
"""


def test_of_two_sentences_the_one_preferred_has_the_higher_score(tmp_path):
    """Where a table or the name of a model says that the lower is the better, and only there."""
    path = tmp_path / "scores.csv"
    path.write_text(FALLING)
    assert read_scores(path).to_numpy().tolist() == [[-8.0, -8.0], [-2.0, -2.0]]
    assert read_token_counts(path).to_numpy().tolist() == [[3.0, 3.0], [4.0, 4.0]]
    assert given_scores(path)[0].to_numpy().tolist() == [[8.0, -8.0], [2.0, -2.0]]
    path.write_text("sentence,contstim:gpt?reduction=ppl,m2\na,80,-8\nb,20,-2\n")
    assert read_scores(path).to_numpy().tolist() == [[-80.0, -8.0], [-20.0, -2.0]]
    arrays = {"contstim:gpt?reduction=ppl": [80.0, 20.0], "m2": [-8.0, -2.0]}
    np.savez(tmp_path / "scores.npz", **arrays)
    turned = read_scores(tmp_path / "scores.npz")
    assert turned.to_numpy().tolist() == [[-80.0, -8.0], [-20.0, -2.0]]


@pytest.mark.parametrize("name", ["m1", "contstim:gpt?reduction=ppl"])
def test_what_was_turned_is_not_turned_again(tmp_path, name):
    path = tmp_path / "scores.csv"
    path.write_text(FALLING.replace("m1", name))
    choices = pd.DataFrame({"participant": ["p", "q"], "trial": 1, "rating": 2.5})
    choices = choices.assign(sentence_1="a", sentence_2="b")
    for scores in (pd.read_csv(path), read_scores(path), read_scores(path).reset_index()):
        models = evaluate(choices, scores).models
        assert models.loc[models["measure"] == "accuracy", "value"].eq(1).all()


def test_what_models_scored_is_selected_from_by_what_they_prefer():
    """As Python has it from `score_sentences`, by specs and by names."""
    unigram = "contstim:unigram?unknown=unk"
    ways = [f"contstim:trigram?unknown=unk&reduction={name}" for name in ("mean", "ppl")]
    sentences, chosen = pool()[:60], []
    for way in ways:
        for models in ([unigram, way], {"a": unigram, "b": way}):
            scores = score_sentences(sentences, models)
            pairs = select_natural_pairs(scores, per_pair=3)
            chosen.append(sorted(pairs[["sentence_1", "sentence_2"]].itertuples(index=False)))
            assert (select_set(scores, n=4, time_limit=5)["separated"] == 1).all()
            ranks = fractional_ranks(scores)
            for row in pairs.itertuples():
                first, second = ranks.loc[row.sentence_1], ranks.loc[row.sentence_2]
                assert first[row.model_1] > second[row.model_1]
                assert first[row.model_2] < second[row.model_2]
            choices = pd.DataFrame({"participant": ["p", "q"], "trial": 1, "rating": 2.5})
            choices = choices.assign(sentence_1=sentences[0], sentence_2=sentences[1])
            table = evaluate(choices, scores).models.set_index(["measure", "model"])
            chosen[-1].append(table["value"].tolist())
    assert chosen[0] == chosen[1] == chosen[2] == chosen[3]


def test_columns_of_counts_are_no_models(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("sentence,m1,m2,n_tokens,n_words,stderr\na,-1,-2,3,2,0\nb,-3,-4,3,2,0\n")
    assert list(read_scores(path)) == ["m1", "m2"]


def test_arrays(tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, m1=np.array([-1.0, -2.0]), m2=np.array([-3, -4]))
    table = read_scores(path)
    assert table.columns.tolist() == ["m1", "m2"]
    assert table.index.tolist() == [0, 1]
    assert table["m2"].tolist() == [-3.0, -4.0]
    np.savez(path, m1=np.zeros(2), m2=np.zeros(2), sentence=np.array(["A b", "c d"]))
    assert read_scores(path).index.tolist() == ["A b", "c d"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sentence,m1,m2\na,1,x\n", "column 'm2' of {} holds 'x', not a number"),
        ("sentence,m1,m2\na,1,2\na,3,4\n", "{} has the sentence 'a' twice"),
        (
            "sentence\na\n",
            "{} has 1 column(s); give the sentence and one or more models, or the columns "
            "sentence, model, log_prob",
        ),
        (
            "sentence,model,log_prob\na,m,1\na,m,2\n",
            "model 'm' of {} has two scores of 'a'; keep one, or, if a row is a word, have them "
            "added up: as a model, 'table:FILE?rows=words'",
        ),
        ("", "{} is empty; give a table with a header and rows"),
    ],
)
def test_faulty_tables(tmp_path, text, message):
    path = tmp_path / "scores.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_scores(path)
    assert str(caught.value) == message.format(path)


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(InputError) as caught:
        read_scores(tmp_path / "none.csv")
    assert str(caught.value) == f"there is no file {tmp_path / 'none.csv'}; check the path"
    with pytest.raises(InputError, match=r"none\.npz: there is no such file"):
        read_scores(tmp_path / "none.npz")
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="cannot read"):
        read_scores(bad)
    latin = tmp_path / "latin.csv"
    latin.write_bytes("sentence,m1,m2\nCafé,1,2\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.csv, line 2 is not UTF-8 text"):
        read_scores(latin)


def test_arrays_that_are_no_table(tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, m1=np.zeros(2), m2=np.zeros(3))
    with pytest.raises(InputError) as caught:
        read_scores(path)
    assert str(caught.value) == (
        f"{path} must hold one array of equal length for each of two or more models, it holds "
        "m1 (2,), m2 (3,)"
    )
    np.savez(path, m1=np.array([None, 1.0], dtype=object), m2=np.zeros(2))
    with pytest.raises(InputError, match="cannot read"):
        read_scores(path)


def test_parquet_without_its_library(tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise ImportError("Unable to find a usable engine")

    monkeypatch.setattr(pd, "read_parquet", refuse)
    with pytest.raises(MissingExtraError) as caught:
        read_scores("scores.parquet")
    assert str(caught.value) == (
        "reading scores.parquet needs pyarrow; pip install pyarrow, or save the table as CSV"
    )


def test_parquet_is_read_as_csv_is(monkeypatch):
    wide = expected().reset_index()
    monkeypatch.setattr(pd, "read_parquet", lambda _path: wide)
    pd.testing.assert_frame_equal(read_scores("scores.parquet"), expected())


def test_triplets_keep_text_and_extra_columns(tmp_path):
    path = tmp_path / "triplets.csv"
    row = ["m1", "m2", "null", "12", "NA", -1, -2, -3, -4, -5, -6, "note"]
    pd.DataFrame([row], columns=[*TRIPLETS, "extra"]).to_csv(path, index=False)
    table = read_triplets(path)
    assert table.iloc[0, :5].tolist() == ["m1", "m2", "null", "12", "NA"]
    assert table["extra"].tolist() == ["note"]
    assert table["synthetic_2_lp_2"].tolist() == [-6]


def test_faulty_triplets(tmp_path):
    path = tmp_path / "triplets.csv"
    frame = pd.DataFrame([dict.fromkeys(TRIPLETS, "x")])
    frame.drop(columns="natural").to_csv(path, index=False)
    with pytest.raises(InputError) as caught:
        read_triplets(path)
    assert (
        str(caught.value)
        == f"{path} has no column 'natural'; did you mean 'natural_lp_2' or 'natural_lp_1'?"
    )
    frame.to_csv(path, index=False)
    with pytest.raises(InputError) as caught:
        read_triplets(path)
    assert str(caught.value) == f"column 'natural_lp_1' of {path} holds 'x', not a number"


def test_rows_with_more_cells_than_the_header(tmp_path):
    """Pandas takes the first cell for a row name, and moves all others by one column."""
    path = tmp_path / "scores.csv"
    path.write_text("sentence,model,log_prob\nYes, he did.,m,-1\nNo, he did.,m,-2\n")
    with pytest.raises(InputError, match="have more cells than its header; put quotes around"):
        read_scores(path)
