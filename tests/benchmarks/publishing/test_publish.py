"""A study in, a folder for others out, and read back.

Tests `contstim.benchmarks.publishing.writing`, `contstim.benchmarks.publishing.folder`,
`contstim.benchmarks.publishing.record`, `contstim.benchmarks.publishing.documents` and
`contstim.cli.publish`.
"""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from folders import make_choices, make_scores, texts_of, write_all

from contstim import evaluate, read_choices
from contstim.benchmarks.publishing.about import ModelSource
from contstim.benchmarks.publishing.folder import check_folder, files_of, read_published
from contstim.benchmarks.publishing.record import read_folder_record
from contstim.benchmarks.publishing.texts import is_digest
from contstim.benchmarks.publishing.writing import add_scores
from contstim.cli import main
from contstim.experiment.exporting import check_psychds
from contstim.files import file_digest


def publish(folder: Path, *options: str, choices: str = "choices.csv") -> int:
    command = ["publish", str(folder / choices), "--about", str(folder / "about.toml")]
    command += ["--scores", str(folder / "scores.csv"), "--date", "2026-11-25"]
    return main([*command, "--out", str(folder / "out"), *options])


def tables(folder: Path) -> dict[str, bytes]:
    # The table of participants names them, and so do exclusions.
    there = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    return {name: content for name, content in there.items() if name != "participants.csv"}


def test_the_evaluation_of_what_is_read_back_is_that_of_the_study(tmp_path: Path) -> None:
    write_all(tmp_path)
    assert publish(tmp_path) == 0
    scores = make_scores(make_choices())
    direct = evaluate(read_choices(tmp_path / "choices.csv"), scores)
    direct.write_tables(tmp_path / "direct")
    assert main(["benchmark", str(tmp_path / "out"), "--out", str(tmp_path / "back")]) == 0
    wanted = tables(tmp_path / "direct")
    assert {"models.csv", "comparisons.csv", "trials.csv", "scores.csv"} <= {*wanted}
    back = tables(tmp_path / "back" / "walks-choices")
    assert {name: back[name] for name in wanted} == wanted
    results = tmp_path / "out" / "results"
    for path in [*results.rglob("*.csv"), *results.rglob("*.svg")]:
        assert (tmp_path / "back" / path.relative_to(results)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(("first", "last"), [(1, 5), (0, 8)])
def test_what_was_asked_on_any_scale_is_read_back(tmp_path: Path, first: int, last: int) -> None:
    table = make_choices()
    codes = [first + k * 7919 % (last - first + 1) for k in range(len(table))]
    table["rating"] = pd.Series(codes).where(table["condition"] != "catch", first)
    write_all(tmp_path, table)
    human = read_choices(tmp_path / "choices.csv")
    assert publish(tmp_path) == 0
    back = read_published(tmp_path / "out").choices
    assert sorted(back["rating"]) == sorted(human.choices["rating"])
    assert check_folder(tmp_path / "out") == []


def test_a_folder_is_psychds_with_digests_that_hold(written: Path) -> None:
    out = written / "out"
    rows = check_psychds(out)
    assert rows["data/study-walks_task-choices_data.csv"] == 120
    assert rows["data/study-walks_task-stimuli_data.csv"] == 20
    sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
    assert {*sums} == {*files_of(out)} - {"SHA256SUMS"}
    assert all(file_digest(out / name) == value for name, value in sums.items())
    assert check_folder(out) == []


def test_documents_say_what_the_authors_and_the_tables_say(written: Path) -> None:
    out = written / "out"
    card = (out / "README.md").read_text("utf-8")
    assert "12 participants made 120 choices between the sentences of 10 pairs" in card
    assert "of which 8 compare models" in card
    assert "Digests stand for 2 of the 20 sentences." in card
    assert "| licensed | a corpus that one must buy | all rights reserved | as digests |" in card
    assert "| m2 | 2026-01 | 2026-11-25 | another paper | none stated |" in card
    for text in ("Walks alone.", "Twelve people.", "Tests."):
        assert text in card
    citation = (out / "CITATION.cff").read_text("utf-8")
    assert 'title: "Who walked home"' in citation
    assert "license: CC-BY-4.0" in citation
    description = json.loads((out / "dataset_description.json").read_text("utf-8"))
    assert description["author"] == ["Ada Example"]
    record = read_folder_record(out)
    assert [scores.model for scores in record.scores] == ["m1", "m2"]
    assert all(file_digest(out / scores.file) == scores.sha256 for scores in record.scores)


def test_a_plan_and_a_review_are_told_in_numbers(tmp_path: Path) -> None:
    write_all(tmp_path)
    (tmp_path / "plan.toml").write_text("margin = 0.2\n[sample]\nparticipants = 13\n", "utf-8")
    (tmp_path / "plan.md").write_text("# Plan\nAsk 13 people. Mail me@example.org.\n", "utf-8")
    decisions = [
        (
            f"The {k} old men walked home again.",
            who,
            "reject" if k == who == 1 else "approve",
            "dull",
        )
        for k in range(4)
        for who in (1, 2)
    ]
    names = {1: "Maria Keller", 2: "Ann Bee"}
    table = pd.DataFrame(decisions, columns=["sentence", "reviewer", "decision", "reason"])
    table.assign(reviewer=table["reviewer"].map(names)).to_csv(tmp_path / "d.csv", index=False)
    options = ["--plan", str(tmp_path / "plan.toml"), "--decisions", str(tmp_path / "d.csv")]
    options += ["--preregistration", str(tmp_path / "plan.md"), "--reviewers", "2"]
    assert publish(tmp_path, *options) == 0
    out = tmp_path / "out"
    plan = (out / "PLAN.md").read_text("utf-8")
    assert "13" in plan.partition("## As registered")[0]
    assert "Ask 13 people. Mail (removed)." in plan
    ethics = (out / "ETHICS.md").read_text("utf-8")
    assert "4 sentences were reviewed by 2 people; at least 2 had to agree." in ethics
    assert "3 were approved as they were, 0 in an edited form, 1 were left out." in ethics
    assert "Of the 20 sentences published, 3 were approved." in ethics
    assert "Cohen's kappa of A and B is 0.000, over 4 sentences." in ethics
    everything = "".join(texts_of(out).values())
    for name in ("Keller", "Ann Bee", "example.org", "dull"):
        assert name not in everything
    evaluation = evaluate(read_published(out), plan=out / "plan.toml")
    assert evaluation.provenance.options.margin == 0.2


def test_withheld_sentences_are_digests_that_their_owners_can_fill_in(
    written: Path, tmp_path: Path
) -> None:
    out = written / "out"
    choices = read_published(out).choices
    shown = {*choices["sentence_1"], *choices["sentence_2"]}
    assert sum(map(is_digest, shown)) == 2
    secret = [f"The {k} old men walked home again." for k in range(2)]
    for content in texts_of(out).values():
        assert all(text not in content for text in secret)
    filled = read_published(out, written / "licensed.txt").choices
    assert {*secret} <= {*filled["sentence_1"], *filled["sentence_2"]}
    (tmp_path / "one.txt").write_text(secret[0])
    with pytest.raises(ValueError, match=r"one.txt lacks 1 of the 2 sentences that .* withholds"):
        read_published(out, tmp_path / "one.txt")
    # What needs no texts is the same with digests and without.
    both = [evaluate(human).models["value"] for human in (read_published(out), read_published(
        out, written / "licensed.txt"))]  # fmt: skip
    pd.testing.assert_series_equal(*both)


def test_a_model_is_added_with_version_date_and_digest(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(written / "out", out)
    before = read_folder_record(out)
    make_scores(make_choices(), ("m3",)).to_csv(tmp_path / "m3.csv", index=False)
    command = ["publish", str(out), "--scores", str(tmp_path / "m3.csv"), "--source", "here"]
    assert main([*command, "--texts", str(written / "licensed.txt")]) == 2
    assert "say of the models --licence; the data card lists it" in capsys.readouterr().err
    command += ["--licence", "MIT", "--weights", "v7", "--date", "2027-01-02"]
    assert main([*command, "--texts", str(written / "licensed.txt")]) == 0
    record = read_folder_record(out)
    assert record.scores[:2] == before.scores
    new = record.scores[2]
    assert (new.model, new.version, new.date, new.source) == ("m3", "v7", "2027-01-02", "here")
    assert file_digest(out / new.file) == new.sha256
    assert check_folder(out) == []
    assert "old men walked home" in (out / new.file).read_text()  # those that are not withheld
    assert sum(map(is_digest, pd.read_csv(out / new.file)["sentence"])) == 2
    results = pd.read_csv(out / "results" / "results.csv")
    whence = dict(zip(results["model"], results["source"], strict=True))
    assert whence == {
        "m1": "a paper; MIT; added 2026-11-25",
        "m2": "another paper; version 2026-01; none stated; added 2026-11-25",
        "m3": "here; version v7; MIT; added 2027-01-02",
    }
    assert "here; version v7; MIT" in re.sub(
        "<wbr>", "", (out / "results" / "index.html").read_text()
    )
    assert "| m3 | v7 | 2027-01-02 | here | MIT |" in (out / "README.md").read_text()
    assert main([*command, "--texts", str(written / "licensed.txt")]) == 2
    assert "scores of 'm3' are in the folder" in capsys.readouterr().err


def test_a_model_that_cannot_be_added_leaves_the_folder_as_it_was(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    shutil.copytree(written / "out", out)
    before = texts_of(out)
    scores = make_scores(make_choices(), ("m3",))

    def cut(folder: Path) -> None:
        (folder / "README.md").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr("contstim.benchmarks.publishing.writing.make_again", cut)
    source = ModelSource(name="m3", source="a | b\nc", licence="MIT")
    with pytest.raises(KeyboardInterrupt):
        add_scores(out, scores, [source], "2027-01-02", written / "licensed.txt")
    assert texts_of(out) == before
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
    monkeypatch.undo()
    add_scores(out, scores, [source], "2027-01-02", written / "licensed.txt")
    assert "| m3 |  | 2027-01-02 | a / b c | MIT |" in (out / "README.md").read_text("utf-8")


FAULTS = {
    "changed": ("README.md", lambda text: text + "x", "README.md is not as SHA256SUMS has it"),
    "mail": (
        "data/study-walks_task-choices_data.csv",
        lambda text: text.replace("natural", "me@example.org", 1),
        "line 2 holds an address of mail",
    ),
    "time": (
        "data/study-walks_task-choices_data.csv",
        lambda text: text.replace("natural", "2026-11-25T10:11:12", 1),
        "holds an exact time",
    ),
    "scores": (
        "data/study-walks_task-scores_model-m1_data.csv",
        lambda text: "\n".join(text.splitlines()[:5]) + "\n",
        "the choices cannot be evaluated",
    ),
    "text": (
        "data/study-walks_task-stimuli_data.csv",
        lambda text: re.sub("sha256:[0-9a-f]{64}", "The old text.", text, count=1),
        "'The old text.' is of 'licensed', which must not be published",
    ),
    "source": (
        "data/study-walks_task-stimuli_data.csv",
        lambda text: text.replace("others", "nowhere"),
        "the source 'nowhere' is not among [[texts]]",
    ),
    "delimiter": (
        "lm_eval/walks.yaml",
        lambda text: text.replace('target_delimiter: ""', 'target_delimiter: " "'),
        "lm_eval/walks.yaml is not what contstim",
    ),
    "code": (
        "lm_eval/functions.py",
        lambda text: text + "import os\n",
        "lm_eval/functions.py is not what contstim",
    ),
    "pairs": (
        "lm_eval/pairs.jsonl",
        lambda text: text.replace('"majority": 1', '"majority": 0', 1),
        "lm_eval/pairs.jsonl is not what contstim",
    ),
    "a sentence of no source": (
        "data/study-walks_task-choices_data.csv",
        lambda text: text.replace("The 3 old men walked home again.", "The bought text."),
        "'The bought text.' is not in data/study-walks_task-stimuli_data.csv, so of no source",
    ),
    "twice": (
        "benchmark.json",
        lambda text: text.replace('"model": "m2"', '"model": "m1"'),
        "scores has 'm1' twice; name each model once",
    ),
    "no record": ("benchmark.json", lambda _: "[1]", "holds no table but '[1]'; make it again"),
    "another model": (
        "data/study-walks_task-scores_model-m1_data.csv",
        lambda text: text.replace(",m1,", ",m3,"),
        "has scores of 'm3', and benchmark.json lists it as of 'm1'",
    ),
    "croissant": (
        "croissant.json",
        lambda text: text.replace('"rai:dataBiases"', '"biases"'),
        "croissant.json lacks rai:dataBiases",
    ),
    "column": (
        "dataset_description.json",
        lambda text: text.replace('"name": "rating"', '"name": "rated"'),
        "variableMeasured does not name column 'rating'",
    ),
    "record": ("benchmark.json", lambda text: text.replace('"preset"', '"pre"'), "benchmark.json"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_named_in_one_line_each(name: str, written: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(written / "out", out)
    file, change, fault = FAULTS[name]
    text = (out / file).read_text("utf-8")
    assert change(text) != text
    (out / file).write_text(change(text), "utf-8")
    faults = check_folder(out)
    assert any(fault in line for line in faults), faults
    assert all("\n" not in line for line in faults)


def test_a_column_that_is_described_in_another_way_is_named(written: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(written / "out", out)
    record = json.loads((out / "benchmark.json").read_text("utf-8"))
    record["columns"]["rating"] = {"width": 1}
    (out / "benchmark.json").write_text(json.dumps(record), "utf-8")
    source = ModelSource(name="m3", source="a paper", licence="MIT")
    scores = make_scores(make_choices(), ("m3",))
    with pytest.raises(ValueError, match=r"columns.rating is \{'width': 1\}; describe it as"):
        add_scores(out, scores, [source], "2027-01-02", written / "licensed.txt")


def test_benchmark_checks_a_folder(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    shutil.copytree(written / "out", out)
    assert main(["benchmark", str(out), "--check"]) == 0
    assert capsys.readouterr().out == f"{out}: nothing is wrong with it\n"
    (out / "README.md").write_text("mine")
    assert main(["benchmark", str(out), "--check"]) == 1
    wanted = f"{out}: README.md is not as SHA256SUMS has it; it was changed\n"
    assert capsys.readouterr().out == wanted


def test_a_new_model_needs_the_texts(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["benchmark", str(written / "out"), "--model", "contstim:bigram?unknown=unk"]
    command += ["--out", str(tmp_path / "new"), "--cache", str(tmp_path / "cache")]
    assert main(command) == 2
    assert "withholds 2 of its 20 sentences" in capsys.readouterr().err
    assert main([*command, "--texts", str(written / "licensed.txt")]) == 0
    results = pd.read_csv(tmp_path / "new" / "results.csv")
    assert results["model"].nunique() == 3
    before = pd.read_csv(written / "out" / "results" / "results.csv")
    kept_rows = results[results["model"] != "contstim:bigram?unknown=unk"].reset_index(drop=True)
    pd.testing.assert_series_equal(kept_rows["value"], before["value"])


def test_a_model_is_put_beside_scores_that_lack_the_catch_trials(tmp_path: Path) -> None:
    folder = write_all(tmp_path)
    choices = make_choices()
    make_scores(choices[choices["condition"] != "catch"]).to_csv(folder / "scores.csv", index=False)
    assert publish(folder) == 0
    command = ["benchmark", str(tmp_path / "out"), "--model", "contstim:unigram?unknown=unk"]
    command += ["--out", str(tmp_path / "new"), "--cache", str(tmp_path / "cache")]
    assert main(command) == 0
    results = pd.read_csv(tmp_path / "new" / "results.csv")
    assert results["model"].nunique() == 3


def test_files_that_are_added_or_gone_are_named(written: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(written / "out", out)
    (out / "more.txt").write_text("x")
    (out / "PLAN.md").unlink()
    assert check_folder(out) == [
        "PLAN.md is in SHA256SUMS and not in the folder",
        "more.txt is not in SHA256SUMS; was it added by hand?",
    ]
    with pytest.raises(ValueError, match="there is no folder"):
        check_folder(out / "none")
    (out / "lm_eval" / "sitecustomize.py").write_text("x")
    faults = check_folder(out)
    assert any("lm_eval/sitecustomize.py is not what contstim" in fault for fault in faults)
    assert "holds no benchmark.json" in check_folder(out / "data")[1]


REFUSED = {
    "model": (lambda about: about.replace('name = "m2"', 'name = "m5"'), "of the model 'm2'"),
    "template": (lambda about: about.replace("Walks alone.", "[[ x ]]"), "limitations is still"),
    "source": (
        lambda about: about.replace("redistribute = true", 'redistribute = true\nfile = "o.txt"'),
        "no source of [[texts]] lists",
    ),
    "licence": (lambda about: about.replace("CC-BY-4.0", "free for all"), "licence is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_said_is_asked_for_and_nothing_is_written(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_all(tmp_path)
    (tmp_path / "o.txt").write_text("Nothing of it.\n")
    change, message = REFUSED[name]
    about = (tmp_path / "about.toml").read_text("utf-8")
    (tmp_path / "about.toml").write_text(change(about), "utf-8")
    assert publish(tmp_path) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_template_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(tmp_path)
    command = ["publish", str(tmp_path / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    command += ["--template", str(tmp_path / "new.toml")]
    assert main(command) == 0
    text = (tmp_path / "new.toml").read_text("utf-8")
    assert 'name = "m1"' in text
    assert main(command) == 2
    assert "is there already" in capsys.readouterr().err
