"""Tests `contstim.models.score_table` and `contstim.models.table_model`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from contstim import datasets
from contstim.cli import main
from contstim.errors import ContstimError, InputError
from contstim.models.reductions import corpus_perplexity
from contstim.models.registry import load_model, score_kind


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text("sentence,gpt4\nThe dog slept.,-12.5\nThe cat  sat.,-9\n", "utf-8")
    return path


def test_table_model_scores_by_unit(file: Path) -> None:
    model = load_model(f"table:{file}")
    assert model.score(["The cat sat.", "The dog slept.", "The cat sat."]).tolist() == [
        -9,
        -12.5,
        -9,
    ]
    assert load_model(model.spec).fingerprint == model.fingerprint
    assert load_model(f"table:{file}?unit=bits").score(["The cat sat."])[0] == -9 * np.log(2)
    # log10 p = -9 is p = 10^-9.
    log10 = load_model(f"table:{file}?unit=log10").score(["The cat sat."])[0]
    assert np.exp(log10) == pytest.approx(1e-9)
    assert score_kind(f"table:{file}").unit == "nats"
    assert score_kind(f"table:{file}?unit=surprisal").unit == "nats"
    assert score_kind(f"table:{file}?unit=score").unit == "score"


@pytest.mark.parametrize(("unit", "nats"), [("surprisal", 1), ("surprisal-bits", np.log(2))])
def test_surprisals_are_negated(tmp_path: Path, unit, nats) -> None:
    path = tmp_path / "surprisal.csv"
    path.write_text("sentence,gpt4\nBad one.,88.3\nGood one.,9\n", "utf-8")
    with pytest.raises(InputError) as error:
        load_model(f"table:{path}")
    assert str(error.value) == (
        f"'table:{path}' contains the log-probability 88.3, which is above 0; add unit=surprisal "
        "(or surprisal-bits) if its numbers are surprisals, or unit=score if they are other "
        "scores, higher for better sentences"
    )
    model = load_model(f"table:{path}?unit={unit}")
    np.testing.assert_allclose(model.score(["Good one.", "Bad one."]), [-9 * nats, -88.3 * nats])
    path.write_text("sentence,gpt4\nBad one.,-88.3\n", "utf-8")
    with pytest.raises(InputError) as error:
        load_model(f"table:{path}?unit={unit}")
    assert str(error.value) == (
        f"'table:{path}?unit={unit}' contains the surprisal -88.3, which is below 0; remove "
        "unit= if its numbers are log-probabilities"
    )


def test_options_select_a_column_or_a_model(tmp_path: Path) -> None:
    wide, long = tmp_path / "wide.csv", tmp_path / "long.csv"
    wide.write_text("sentence,a,b\nX y.,-1,-2\n", "utf-8")
    long.write_text("sentence,model,log_prob,n_tokens\nX y.,a,-1,3\nX y.,b,-2,3\n", "utf-8")
    for spec in (f"table:{wide}?column=b", f"table:{long}?model=b"):
        assert load_model(spec).score(["X y."]).tolist() == [-2]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("sentence,a,b\nX.,-1,-2\n", "", "which column of {} contains the scores? add column="),
        ("sentence,a\nX.,oops\n", "?column=a", "column 'a' of {} contains no number for 'X.'"),
        ("sentence,a\nX.,-1\nX.,-2\n", "", "{} has two scores for 'X.'; keep one,"),
        ("sentence,a\nX.,nan\nY.,-1\n", "", "column 'a' of {} contains no number for 'X.'"),
        ("text,a\nX.,-1\n", "", "{} has no column 'sentence'; a table of scores needs one"),
        ("sentence,model,log_prob\nX.,a,-1\nX.,b,-1\n", "", "{} contains scores of 2 models; add"),
        ("sentence,a\nX.,-1\n", "?model=a", "model='a': {} has no column 'model'; use column="),
        ("sentence,a\nX.,-1\n", "?unit=nat", "unit='nat' in"),
    ],
)
def test_invalid_score_tables_are_rejected(
    tmp_path: Path, text: str, options: str, message: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(ContstimError) as error:
        load_model(f"table:{path}{options}")
    assert message.format(path) in str(error.value)


def test_missing_sentences_are_reported(file: Path) -> None:
    model = load_model(f"table:{file}")
    with pytest.raises(InputError) as error:
        model.score(["The dog slept.", "New one.", "New two."])
    assert str(error.value) == (
        f"'table:{file}' lacks scores for 2 of 3 sentences: 'New one.', 'New two.'; a table scores "
        "only the sentences it contains: score these in the program that wrote it and add them, or "
        "use a model that can be loaded"
    )


def test_reductions_and_perplexity_of_tables_are_rejected(file: Path) -> None:
    said = (
        f"'table:{file}' does not count tokens, which reductions and perplexities need; use its "
        "scores unreduced"
    )
    for reduction in ("mean", "pen"):
        with pytest.raises(InputError) as error:
            load_model(f"table:{file}?reduction={reduction}").score(["The dog slept."])
        assert str(error.value) == said
    with pytest.raises(InputError) as error:
        corpus_perplexity(load_model(f"table:{file}"), ["The dog slept."])
    assert str(error.value) == said


def test_table_model_in_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choices = tmp_path / "choices.csv"
    own = tmp_path / "own.csv"
    table = datasets.simulated_choices().query("condition == 'natural_controversial'")
    table.to_csv(choices, index=False)
    texts = pd.unique(table[["sentence_1", "sentence_2"]].to_numpy().ravel()).tolist()
    # A stand-in for another's scores: the model that people follow.
    scores = load_model(datasets.FOLLOWED_MODEL).score(texts)
    pd.DataFrame({"sentence": texts, "mine": scores}).to_csv(own, index=False)
    out = tmp_path / "out"
    command = ["evaluate", str(choices), "--model", "contstim:trigram", "--out", str(out)]
    # A new model on trials that were made for others, alone and beside one of them.
    assert main([*command, "--model", f"table:{own}"]) == 0
    models = pd.read_csv(out / "models.csv").query("analysis == 'all' and measure == 'accuracy'")
    value = models.set_index("model")["value"]
    assert value[f"table:{own}"] > value["contstim:trigram"] + 0.05
    capsys.readouterr()
    assert main(["evaluate", str(choices), "--model", f"table:{own}", "--out", str(out)]) == 0
    assert "of which none has scores" in capsys.readouterr().err
    alone = pd.read_csv(out / "models.csv").query("measure == 'accuracy'")
    assert "targeted" not in set(alone["analysis"])
    assert alone.set_index("analysis").loc["all", "value"] == value[f"table:{own}"]
    # The same scores by --scores, and a model on top of them.
    assert main([*command, "--scores", str(own)]) == 0
    both = pd.read_csv(out / "models.csv").query("analysis == 'all' and measure == 'accuracy'")
    assert both.set_index("model")["value"]["mine"] == value[f"table:{own}"]
    # New sentences cannot be had of it.
    capsys.readouterr()
    pair = ["--pair", "contstim:trigram", f"table:{own}"]
    assert main(["synthesize", *pair, texts[0]]) == 2
    assert "use a model that can be loaded" in capsys.readouterr().err


# As `lm-zoo get-surprisals` writes them: tokens of numbered sentences, in bits.
TOKENS = """\
sentence_id\ttoken_id\ttoken\tsurprisal
1\t1\tThe\t4
1\t2\tdog\t8.5
1\t3\tslept\t2
2\t1\tDogs\t7
2\t2\tsleep\t1
"""


def test_word_scores_are_summed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbered, listed = tmp_path / "surprisals.tsv", tmp_path / "list.txt"
    numbered.write_text(TOKENS, "utf-8")
    listed.write_text("The dog slept\nDogs sleep\n", "utf-8")
    spec = f"table:{numbered}?rows=words&sentences={listed}&unit=surprisal-bits"
    model = load_model(spec)
    expected = [-14.5 * np.log(2), -8 * np.log(2)]
    np.testing.assert_allclose(model.score(["The dog slept", "Dogs sleep"]), expected)
    assert "sums of words, surprisal-bits" in str(model.event)
    assert load_model(model.spec).score(["Dogs sleep"]) == model.score(["Dogs sleep"])
    before = model.fingerprint
    listed.write_text("The dog slept\nDogs slept\n", "utf-8")
    assert load_model(spec).fingerprint != before  # of other sentences they are other scores
    # What contstim writes of words adds up to what it says of sentences.
    sentences, words = tmp_path / "two.txt", tmp_path / "words.csv"
    sentences.write_text("The dog slept.\nWe must go home.\n", "utf-8")
    asked = ["score", "--model", "contstim:bigram", str(sentences)]
    assert main([*asked, "--per", "word", "--out", str(words)]) == 0
    texts = sentences.read_text().splitlines()
    own = load_model(f"table:{words}?rows=words").score(texts)
    np.testing.assert_allclose(own, load_model("contstim:bigram").score(texts))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "sentence,word,a\nX y,X,-2\nX y,y,-2\n",
            "",
            "has several rows of 'X y' and a column 'word', so each row seems to be a word; add",
        ),
        (
            "sentence,a\nX y,-1\nX y,-2\n",
            "",
            "two scores for 'X y'; keep one, or, if each row is a",
        ),
        ("sentence,a\nX,1\nY,2\n", "&unit=bits", "log-probability 2, which is above 0; add"),
        ("sentence,a\nX,-1\nY,-1\nX,-1\n", "", "has the words of 'X' twice; keep them once"),
        ("sentence,word,a\n" + "X y,X,-2\nX y,y,-3\n" * 2, "", "has the words of 'X y' twice; kee"),
        ("sentence,a\n" + "X y,-2\nX y,-3\n" * 2, "", "has the words of 'X y' twice; keep them"),
        ("sentence,token,a\n" + "ha,ha,-2\n" * 2, "", "has the words of 'ha' twice; keep them"),
        (
            "sentence,sentence_id,a\nno no,1,-2\nno no,1,-3\nno no,2,-2\nno no,2,-3\n",
            "",
            "has the words of 'no no' twice; keep them once",
        ),
        (
            "sentence,word,a\nX,X,\nZ w,Z,\nZ w,w,-2\n",
            "",
            "contains no number for 'X'; fill or rem",
        ),
        ("sentence,position,a\nX,0,-1\nX,0,-2\n", "", "has the words of 'X' twice; keep them"),
        ("sentence,a\nX y,\nX y,-1\nZ w,-1\nZ w,-2\n", "", "lacks the number of a word of 'X y';"),
        ("sentence,a\nX y,\nX y,-1\nZ w,\nZ w,\n", "", "lacks the number of a word of 'Z w'; fi"),
        ("token,a\nX,-1\n", "&sentences={}", "has no column 'sentence_id'; sentences= needs one"),
        ("sentence_id,a\n1,-1\n", "&sentences={}", "does not number the 2 sentences of"),
        ("sentence_id,a\n2,-1\n3,-1\n", "&sentences={}", "does not number the 2 sentences of"),
    ],
)
def test_inconsistent_word_tables_are_rejected(
    tmp_path: Path, text: str, options: str, message: str
) -> None:
    path, listed = tmp_path / "t.csv", tmp_path / "list.txt"
    path.write_text(text, "utf-8")
    listed.write_text("X y\nZ w\n", "utf-8")
    is_by_sentence = message.startswith(("two scores", "has several rows"))
    asked = "" if is_by_sentence else f"?rows=words{options.format(listed)}"
    with pytest.raises(InputError) as error:
        load_model(f"table:{path}{asked}")
    assert message in str(error.value)


def test_unscored_first_words_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sentence,word,surprisal\nX y,X,\nX y,y,3\nZ w,Z,\nZ w,w,2\n", "utf-8")
    scores = load_model(f"table:{path}?rows=words&unit=surprisal").score(["X y", "Z w"])
    assert scores.tolist() == [-3, -2]


def test_repeated_words_in_a_sentence_are_summed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = ("no no,no,-2\n", "X,X,-4\n", "haha,ha,-1\n", "No no,▁no,-1\n")
    path.write_text("sentence,token,a\n" + "".join(r * (1 + (r != rows[1])) for r in rows), "utf-8")
    scores = load_model(f"table:{path}?rows=words").score(["no no", "X", "haha", "No no"])
    assert scores.tolist() == [-4, -4, -2, -2]
