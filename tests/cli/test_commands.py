"""Test the commands on the bundled models.

Tests `contstim.cli.score`, `contstim.cli.synthesize`, `contstim.cli.run` and
`contstim.cli.sentences`; also `contstim.cli.synthesis_study`.
"""

import csv
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from contstim import load_model, pool
from contstim.cli import COMMANDS, main
from contstim.cli.vocabularies import read_vocabulary
from contstim.columns import SCORES, UNIT
from contstim.models.base import SentenceScores
from contstim.models.toy import RandomBigramModel


def _sentences(n: int) -> list[str]:
    return [s for s in pool() if len(s.split()) == 8][:n]


class _Batched(RandomBigramModel):
    """Model with scores that differ slightly between batches, as those of networks do."""

    def score_with_counts(self, sentences: Sequence[str]) -> SentenceScores:
        self.n_scored += 1
        given = super().score_with_counts(sentences)
        return replace(given, score=given.score - 1e-9 * self.n_scored)


def test_repeated_sentences_get_one_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _Batched(["a", "b", "c"], 1)
    monkeypatch.setattr("contstim.cli.score._CHUNK", 3)
    monkeypatch.setattr("contstim.models.registry.load_models", lambda _: [model])
    lines = ["a b", "a b", "b a", "c", "a b", "c", "a b", "c", "b a"]
    (tmp_path / "s.txt").write_text("\n".join(lines) + "\n", "utf-8")
    asked = ["score", "--model", "any", str(tmp_path / "s.txt"), "--out", "-"]
    assert main(asked) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert table["sentence"].tolist() == lines
    assert table.groupby("sentence")["log_prob"].nunique().tolist() == [1, 1, 1]
    (tmp_path / "s.txt").write_text("\n".join([*lines, "a d"]) + "\n", "utf-8")
    assert main(asked) == 2
    assert "sentence 10: " in capsys.readouterr().err


def test_word_scores_follow_the_language_of_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, spec = tmp_path / "fr.txt", "contstim:unigram?language=fr&unknown=unk"
    path.write_text("L'homme dort.\n", "utf-8")
    assert main(["score", "--model", spec, str(path), "--per", "word"]) == 0
    words = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert words["word"].tolist() == ["L'", "homme", "dort."]
    assert words["log_prob"].tolist() == load_model(spec).score_words(["L'homme dort."])[0].tolist()


def test_models_list_info_and_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list"]) == 0
    listed = capsys.readouterr().out
    for name in ("bigram", "trigram", "rnn", "lstm", "gpt", "bert"):
        assert f"contstim:{name}" in listed
    assert main(["models", "info", "contstim:trigram"]) == 0
    info = capsys.readouterr().out
    assert "event    units words, start <s>" in info
    assert "perplexity" in info
    assert main(["models", "check", "contstim:bigram"]) == 0
    assert capsys.readouterr().out.count("ok  ") == 5


def test_ngram_models_are_trained_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(pool()) + "\n", "utf-8")
    out = tmp_path / "mine.arpa.gz"
    train = ["models", "train", "ngram", str(text), "--order", "2", "--punctuation", "split"]
    assert main([*train, "--fallback", "0.5,1,1.5", "--out", str(out)]) == 0
    assert "n-grams of order 1 to 2" in capsys.readouterr().out
    check = ["models", "check", f"ngram:{out}?punctuation=split"]
    assert main(check) == 0
    assert main([*check, "--sentences", str(text)]) == 0
    text.write_text("The door was open.\n", "utf-8")
    assert main([*check, "--sentences", str(text)]) == 2
    assert "at least three sentences of different lengths" in capsys.readouterr().err


def test_sentences_are_sampled_from_a_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(pool()) + "\n", "utf-8")
    command = ["sentences", "sample", str(text), "--length", "8", "--n", "20", "--seed", "3"]
    assert main(command) == 0
    first = capsys.readouterr()
    assert len(first.out.splitlines()) == 20
    assert all(len(line.split()) == 8 for line in first.out.splitlines())
    assert "sentences read" in first.err
    assert main(command) == 0
    assert capsys.readouterr().out == first.out
    words = tmp_path / "words.csv"
    assert main(["vocabulary", "--words", "bundled", "--out", str(words)]) == 0
    assert main([*command, "--vocabulary", str(words)]) == 0
    assert {*capsys.readouterr().out.splitlines()} < {*text.read_text("utf-8").splitlines()}
    assert main(["sentences", "pool"]) == 0
    assert capsys.readouterr().out.splitlines() == pool()


def test_search_reports_an_exhausted_input_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = _sentences(1)[0]
    words = tmp_path / "words.txt"
    words.write_text("\n".join(["The", "A", "He", "the", "of", "and", "old", "house"]) + "\n")
    models = ["--reject", "contstim:rnn", "--accept", "contstim:trigram"]
    command = ["synthesize", *models, "--vocabulary", str(words), sentence]
    rows = []
    for more, status in (([], 0), (["--strategy", "edit?inputs=1"], 1)):
        assert main([*command, *more]) == status
        said = capsys.readouterr()
        rows += csv.DictReader(io.StringIO(said.out))
    assert [row["finished"] for row in rows] == ["True"]
    assert "0 of 1 sentences were found\nnothing was found" in said.err


@pytest.mark.parametrize("edits", ["changed=1,max=1,words=1:old+house", "changed=1,max=1"])
def test_sentences_without_a_lower_loss_are_not_written(
    edits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The rejecting model finds every other word more probable than the natural one.
    words, out = tmp_path / "words.txt", tmp_path / "out.csv"
    words.write_text("\n".join(["The", "A", "the", "man", "old", "house"]) + "\n")
    models = ["--reject", "contstim:trigram", "--accept", "contstim:unigram", "--margin", "99"]
    command = ["synthesize", *models, "--vocabulary", str(words), "The gum was lost."]
    for _ in range(2):  # the second time the file is there
        assert main([*command, "--edits", edits, "--out", str(out)]) == 1
        assert "nothing was found" in capsys.readouterr().err
        assert len(out.read_text("utf-8").splitlines()) == 1


def test_options_override_the_study_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'models = ["contstim:bigram", "contstim:trigram"]\n[study]\nname = "x"\nseed = 4\n'
        '[sentences]\nlimit = 2\n[synthesis]\nstrategy = "edit?candidates=all"\nper_pair = 1\n'
        'allocation = "all"\n'
    )
    assert main(["synthesize", "--plan", str(plan)]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["strategy"], row["seed"]) == ("edit?candidates=all", "4")
    more = ["--strategy", "beam?width=8", "--seed", "5", "The ship left at dawn."]
    assert main(["synthesize", "--plan", str(plan), *more]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["strategy"], row["seed"]) == ("beam?width=8", "5")


def test_help_lists_at_most_25_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synthesize", "--help"]) == 0
    options = re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert 15 < len(options) == len({*options}) <= 25


SAMPLE = "sample?writer=contstim:gpt&n_prompts=0&max_samples=32&min_end_probability=0.02"


def test_synthesize_writes_pool_and_triplets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pair = ["--pair", "contstim:bigram", "contstim:trigram", "--limit", "3"]
    command = ["synthesize", *pair, "--strategy", SAMPLE, "--pool", "pool.csv", "--out", "t.csv"]
    assert main(command) in (0, 1)  # few samples may not give a triplet
    assert "sentences were sampled" in capsys.readouterr().err
    assert main(command) in (0, 1)
    assert "up to date" in capsys.readouterr().err
    assert main(["select", "natural", "pool.csv", "--per-pair", "2", "--out", "pairs.csv"]) == 0
    assert len(Path("pairs.csv").read_text("utf-8").splitlines()) == 3
    header = Path("pool.csv").read_text("utf-8").partition("\n")[0].split(",")
    assert header[:8] == [*SCORES, UNIT, "source"]


def test_unusable_vocabulary_entries_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "words.txt"
    path.write_text("The\ndog\ndon't\nwell-known\ny\ntwo words\ndog.\n", "utf-8")
    vocabulary = read_vocabulary(str(path))
    assert vocabulary.elsewhere.words == ("dog", "don't", "well-known", "y")
    assert capsys.readouterr().err == (
        f"{path}: 2 entries left out, which are not single words or are allowed at no position: "
        "'two words', 'dog.'\n"
    )


def test_missing_command_suggests_first_commands(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert capsys.readouterr().err == (
        "contstim: give a command: `contstim demo` shows in a minute what it does, `contstim "
        "evaluate` finds out from people's choices which model was right; see contstim --help\n"
    )


#: Packages that are slow to import and that no help needs.
HEAVY = (
    "jinja2 matplotlib nltk numpy pandas pulp pydantic scipy sqlite3 sklearn statsmodels torch "
    "transformers wordfreq"
)

#: Prints the help of all commands and subcommands, and the first command that loads such a package.
HELP_OF_ALL = """
import contextlib, os, sys
from contstim.cli import COMMANDS, main

def print_help(command, app):
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        assert main([*command, "--help"]) == 0
    print(*command)
    loaded = sorted({*sys.argv[1].split()} & {*sys.modules})
    assert not loaded, f"the help of {command} loads {loaded}"
    for name in app:
        if not name.startswith("-"):
            print_help([*command, name], app[name])

for name in COMMANDS:
    print_help([name], COMMANDS[name])
"""


def test_help_imports_no_heavy_package() -> None:
    command = [sys.executable, "-c", HELP_OF_ALL, HEAVY]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    commands = done.stdout.splitlines()
    assert len(commands) > len(COMMANDS)
    assert {"models train ngram", "select set", "publish"} <= {*commands}


def test_score_reads_the_sentences_of_a_pair_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(
        "item,sentence_1,sentence_2\n1,The door was open.,He saw the house.\n"
        "2,He saw the house.,It was late.\n",
        "utf-8",
    )
    assert main(["score", "--model", "contstim:bigram", str(path)]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out)).drop_duplicates()
    sentences = ["The door was open.", "He saw the house.", "It was late."]
    assert sorted(table["sentence"]) == sorted(sentences)
    expected = dict(zip(sentences, load_model("contstim:bigram").score(sentences), strict=True))
    assert table.set_index("sentence")["log_prob"].to_dict() == pytest.approx(expected)


def test_synthesis_starts_without_pandas() -> None:
    code = (
        "import contstim.cli.synthesis_study, contstim.pipeline.synthesis_job, sys; "
        "print({'pandas', 'torch'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        try:
            status = main([command, "--help"])
        except SystemExit as stop:
            status = stop.code
        assert status == 0
        assert f"  contstim {command}" in capsys.readouterr().out
