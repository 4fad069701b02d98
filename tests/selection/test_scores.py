"""Reading score and triplet tables."""

import io
import sys
import unicodedata

import numpy as np
import pandas as pd
import pytest

from contstim.columns import TRIPLETS
from contstim.errors import InputError
from contstim.evaluation import evaluate
from contstim.selection import (
    read_scores,
    read_triplets,
)
from contstim.selection.scores import read_token_counts

WIDE = 'sentence,m1,m2\n"Yes, null",-1.5,-inf\nnull,-2,\n12,-3.25,-4\n'


def expected():
    return pd.DataFrame(
        {"m1": [-1.5, -2.0, -3.25], "m2": [-np.inf, np.nan, -4.0]},
        index=pd.Index(["Yes, null", "null", "12"], name="sentence"),
    )


def test_read_scores_of_a_wide_table(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text(WIDE, encoding="utf-8")
    pd.testing.assert_frame_equal(read_scores(path), expected(), check_index_type=False)


def test_read_scores_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WIDE.encode())))
    pd.testing.assert_frame_equal(read_scores("-"), expected(), check_index_type=False)


def test_read_scores_of_a_long_table(tmp_path):
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


def test_duplicate_rows_are_merged(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("sentence,model,log_prob\na,m1,-1\na,m2,-2\nb,m1,-3\nb,m2,-4\na,m1,-1\n")
    assert read_scores(path).to_numpy().tolist() == [[-1.0, -2.0], [-3.0, -4.0]]


LONG = """\
sentence,model,log_prob,n_tokens,unit,better
a,m1,8,3,surprisal,lower
b,m1,2,4,surprisal,
a,m2,-8,3,nats,higher
b,m2,-2,4,nats,higher
c,m3,1,2,bits,
c,m4,1,2,energy,lower
"""


def test_scores_are_converted_to_nats_and_oriented(tmp_path, capsys):
    path = tmp_path / "scores.csv"
    path.write_text(LONG)
    read = read_scores(path)
    assert read[["m1", "m2"]][:2].to_numpy().tolist() == [[-8.0, -8.0], [-2.0, -2.0]]
    assert read.loc["c", ["m3", "m4"]].tolist() == [pytest.approx(np.log(2)), -1.0]
    said = capsys.readouterr().err
    assert "scores.csv: The scores of m1 are in surprisal and were negated." in said
    assert "The scores of m3 are in bits and were multiplied by 0.6931." in said
    assert "The scores of m4 are better where they are lower and were negated." in said
    assert "m2" not in said
    assert read_token_counts(path).loc["a", ["m1", "m2"]].tolist() == [3.0, 3.0]
    path.write_text(LONG.replace("surprisal,lower", "surprisal,higher"))
    with pytest.raises(InputError, match="lower surprisals are better: correct one"):
        read_scores(path)


def test_converted_tables_are_not_converted_again(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("\n".join(LONG.splitlines()[:5]))
    choices = pd.DataFrame({"participant": ["p", "q"], "trial": 1, "rating": 2.5})
    choices = choices.assign(sentence_1="a", sentence_2="b")
    for scores in (pd.read_csv(path), read_scores(path), read_scores(path).reset_index()):
        models = evaluate(choices, scores).models
        assert models.loc[models["measure"] == "accuracy", "value"].eq(1).all()


def test_unicode_forms_of_a_sentence_are_merged(tmp_path):
    path = tmp_path / "scores.csv"
    decomposed = unicodedata.normalize("NFD", "Der Bär")
    path.write_text(f"sentence,m1,m2\nDer Bär,-1,-2\n {decomposed} ,-1,-2\nb  c,-3,-4\n", "utf-8")
    assert read_scores(path).index.tolist() == ["Der Bär", "b c"]
    path.write_text(f"sentence,m1,m2\nDer Bär,-1,-2\n{decomposed},-5,-2\n", "utf-8")
    with pytest.raises(InputError, match="two scores for 'Der Bär'"):
        read_scores(path)


def test_count_columns_are_not_models(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("sentence,m1,m2,n_tokens,n_words,stderr\na,-1,-2,3,2,0\nb,-3,-4,3,2,0\n")
    assert list(read_scores(path)) == ["m1", "m2"]


def test_read_scores_of_numpy_arrays(tmp_path):
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
        ("sentence,m1,m2\na,1,x\n", "column 'm2' of {} contains 'x', not a number"),
        (
            "sentence,m1,m2\na,1,2\na,3,4\n",
            "model 'm1' of {} has two scores for 'a'; keep one, or, if each row is a word, "
            "sum them: as a model, 'table:FILE?rows=words'",
        ),
        (
            "sentence\na\n",
            "{} has no model column; add one column of scores per model",
        ),
        (
            "sentence,model,log_prob\na,m,1\na,m,2\n",
            "model 'm' of {} has two scores for 'a'; keep one, or, if each row is a word, "
            "sum them: as a model, 'table:FILE?rows=words'",
        ),
    ],
)
def test_invalid_score_tables_are_rejected(tmp_path, text, message):
    path = tmp_path / "scores.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_scores(path)
    assert str(caught.value) == message.format(path)


def test_missing_and_damaged_files_are_reported(tmp_path):
    with pytest.raises(InputError) as caught:
        read_scores(tmp_path / "none.csv")
    assert str(caught.value) == f"there is no file {tmp_path / 'none.csv'}; check the path"
    with pytest.raises(InputError, match=r"none\.npz: there is no such file"):
        read_scores(tmp_path / "none.npz")
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="cannot read"):
        read_scores(bad)


def test_invalid_arrays_are_rejected(tmp_path):
    path = tmp_path / "scores.npz"
    np.savez(path, m1=np.zeros(2), m2=np.zeros(3))
    with pytest.raises(InputError) as caught:
        read_scores(path)
    assert str(caught.value) == (
        f"{path} must contain one array of equal length for each of two or more models, it "
        "contains m1 (2,), m2 (3,)"
    )
    np.savez(path, m1=np.array([None, 1.0], dtype=object), m2=np.zeros(2))
    with pytest.raises(InputError, match="cannot read"):
        read_scores(path)


def test_read_scores_of_a_parquet_file(monkeypatch):
    wide = expected().reset_index()
    monkeypatch.setattr(pd, "read_parquet", lambda _path: wide)
    pd.testing.assert_frame_equal(read_scores("scores.parquet"), expected())


def test_invalid_triplet_tables_are_rejected(tmp_path):
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
    assert str(caught.value) == f"column 'natural_lp_1' of {path} contains 'x', not a number"
