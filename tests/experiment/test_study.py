"""Test that study folders are read back as written, and errors in them.

Tests `contstim.experiment.study`, `contstim.experiment.scaffold`, `contstim.experiment.options`,
`contstim.experiment.recruitment`, `contstim.experiment.trials`, `contstim.experiment.page_data`.
"""

import hashlib
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from studies import ATTENTION, RECRUITER, add, edit

from contstim.cli import main
from contstim.errors import InputError, OutputError, UnknownNameError
from contstim.evaluation.ratings import SCALES, rescale
from contstim.experiment.options import TrialOptions
from contstim.experiment.page_data import make_outcome_link, make_session_data, make_study_info
from contstim.experiment.presentations import make_presentation
from contstim.experiment.recruitment import Codes, Recruiter
from contstim.experiment.scaffold import create_study, write_folder
from contstim.experiment.study import (
    PAGE_LANGUAGES,
    Study,
    read_default_texts,
    read_study,
    read_text_source,
    read_texts,
)
from contstim.experiment.trials import read_design
from contstim.text.languages import get_language


def test_new_study_matches_the_design(study: Study, trials: pd.DataFrame) -> None:
    design = study.design
    assert dict(design.groups) == {1: 1, 2: 1, 3: 2, 4: 2}
    for assignment, own in trials.groupby("participant"):
        shown = design.trials[int(assignment)]
        assert [t.number for t in shown] == [*range(1, 7)]
        for trial, row in zip(shown, own.to_dict("records"), strict=True):
            assert trial.id == f"t{row['stimulus']}"
            assert trial.condition == row["condition"]
            one = trial.shown[row["side_1"]]
            two = trial.shown["right" if row["side_1"] == "left" else "left"]
            assert (one, two) == (row["sentence_1"], row["sentence_2"])
            assert trial.expected == (row["side_1"] if row["kind"] == "catch" else None)
    assert study.texts == read_default_texts()
    assert "consent.md still has passages marked" in study.notes[0]


def test_items_without_numbers_are_inferred(study: Study, trials: pd.DataFrame) -> None:
    path = study.folder / "trials.csv"
    trials.drop(columns=["stimulus", "item"]).to_csv(path, index=False)
    design = read_study(study.folder).design
    ids = [
        {t.id: {*t.shown.values()} for t in design.trials[assignment]} for assignment in (1, 2, 3)
    ]
    assert ids[0] == ids[1]
    assert not set(ids[0]) & set(ids[2])


def test_positions_of_attention_checks(study: Study) -> None:
    study = add(study, ATTENTION)
    shown = study.design.trials[1]
    assert [t.kind for t in shown] == ["attention", *["choice"] * 2, "attention", *["choice"] * 4]
    assert [t.number for t in shown] == [*range(1, 9)]
    assert [(t.id, t.expected) for t in shown if t.kind == "attention"] == [
        ("a2", "right"),
        ("a1", "left"),
    ]


def test_positions_of_breaks(study: Study) -> None:
    study = edit(study, "break_every = 55", "break_every = 2")
    study = edit(study, "break_after = []", "break_after = [5, 1]")
    assert make_session_data(study, 1)["settings"]["breaks"] == [1, 2, 4, 5]


@pytest.mark.parametrize("side", ["left", "right"])
def test_ratings_depend_on_the_side_of_sentence_1(side: str) -> None:
    shown = make_presentation(TrialOptions())
    found = [shown.choice_to_rating(choice, side) for choice in (-3, -2, -1, 1, 2, 3)]
    assert found == sorted(found, reverse=side == "right")
    assert sorted(found) == [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_ratings_match_the_evaluation_for_all_levels(levels: int) -> None:
    shown = make_presentation(TrialOptions(levels=levels))
    choices = shown.choices({}) or ()
    assert len(choices) in SCALES.values()  # or `evaluate` refuses what is exported
    wanted = rescale([*range(1, 2 * levels + 1)], 1, 2 * levels).tolist()
    assert [shown.choice_to_rating(choice, "left") for choice in choices] == wanted


@pytest.mark.parametrize("choice", [0, 4, -4, 1.0, True, "1", None])
def test_invalid_choices_have_no_rating(choice: Any) -> None:
    with pytest.raises(InputError, match="choice is"):
        make_presentation(TrialOptions()).choice_to_rating(choice, "left")


def test_bundle_hides_the_side_of_sentence_1(study: Study) -> None:
    study = add(study, RECRUITER)
    bundle = make_session_data(study, 3, "s", ["n1"], 12.5)
    assert json.loads(json.dumps(bundle)) == bundle
    assert (bundle["format"], bundle["session"], bundle["group"], bundle["assignment"]) == (
        1,
        "s",
        2,
        3,
    )
    assert bundle["answered"] == {"n1": {}}
    assert [t["trial"] for t in bundle["trials"]] == [f"n{k}" for k in range(1, 7)]
    keys = frozenset({"trial", "number", "kind", "shown"})
    assert {frozenset(t) for t in bundle["trials"]} == {keys}
    assert {frozenset(t) for t in bundle["practice"]} == {keys | {"expected"}}
    text = (study.folder / "consent.md").read_text("utf-8").strip()
    assert bundle["consent"]["sha256"] == hashlib.sha256(text.encode()).hexdigest()
    # The code for a whole session must not be read from the page's source.
    assert "DONE1" not in json.dumps(bundle)
    assert bundle["recruiter"]["declined"] == {
        "code": "NO2",
        "redirect": "https://app.prolific.com/submissions/complete?cc=NO2",
    }
    assert make_outcome_link(study, "complete")["code"] == "DONE1"
    assert make_outcome_link(study, "full") == {"code": None, "redirect": None}
    assert set(make_study_info(study)) < set(bundle)
    with pytest.raises(InputError, match="no participant 9"):
        make_session_data(study, 9)
    with pytest.raises(InputError, match="no outcome 'over'"):
        make_outcome_link(study, "over")


def test_no_completion_code_without_a_recruiter(study: Study) -> None:
    assert make_outcome_link(study, "complete") == {"code": None, "redirect": None}
    assert make_study_info(study)["recruiter"] is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('language = "en"', 'language = "English please"', "study.language is 'English please'"),
        ('direction = "ltr"', 'direction = "up"', "unknown study.direction 'up'"),
        ('version = "1"', "version = 1", "consent.version is 1; give text"),
        (
            'version = "1"',
            'version = " "',
            "consent.version is ' '; give the",
        ),
        ('file = "consent.md"', 'file = "../x"', "name a file in the study's folder"),
        ('file = "consent.md"', 'file = "other.md"', "there is no consent form"),
        ("break_every = 55", "break_evry = 55", "unknown key session.break_evry; did you mean"),
        ("break_every = 55", "break_every = -1", "session.break_every is -1"),
        (
            "break_after = []",
            "break_after = [0]",
            "session.break_after.0. is 0; give at least",
        ),
        ("break_after = []", "break_after = [6]", "contains 6, but there are 6 trials"),
        (
            "break_after = []",
            'break_after = ["x"]',
            "after.0. is 'x'; give a whole number",
        ),
        (
            "release_after_minutes = 120",
            "release_after_minutes = -1",
            "allocation.release_after_minutes is -1; give at least 0",
        ),
        ("format = 1", "format = 2", "format is 2"),
        (
            "format = 1",
            "format = 2\nnewkey = 3",
            "format is 2; this version of contstim reads 1",
        ),
        ("format = 1", "forms = 1", "unknown key forms"),
        ("format = 1", "adaptve = 1", "unknown key adaptve; did you mean 'adaptive'?"),
        ("format = 1", "adaptive = 1", r"adaptive is 1; make it a table, \[adaptive\]"),
        ("[session]", "[[session]]", "make it a table"),
        ('left = "The dog barked at the postman."', 'left = ""', r"practice\[0\].left is ''"),
        (
            'left = "The dog barked at the postman."',
            "",
            r"\[\[practice\]\] 1 has no 'left'; this presentation shows one",
        ),
        ("[study]", "study", "cannot read .*study.toml as TOML"),
    ],
)
def test_errors_in_study_toml_are_reported(study: Study, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        edit(study, old, new)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RECRUITER.replace("https:", "http:"), "give an https address"),
        (RECRUITER.replace("DONE1", "a b"), "recruiter.codes.complete is 'a b'"),
        (RECRUITER.replace("complete =", "whole ="), "unknown key recruiter.codes.whole"),
        (
            RECRUITER.replace("STUDY_ID", "a&b"),
            "parameters.0. is 'a&b'; that is not the name of a URL",
        ),
        ('[recruiter]\nname = "x"\nrequired = true', "say which parameter"),
        ('recruiter = "prolific"', "recruiter is 'prolific'|unknown key practice.1..recruiter"),
        (ATTENTION.replace("after = 2", "after = 9"), "attention.after is 9, but there are 6"),
        (
            ATTENTION.replace('"left"', '"up"'),
            r"\[\[attention\]\] 1: expected is 'up'; here it is 'left' or 'right'",
        ),
    ],
)
def test_errors_in_optional_tables_are_reported(study: Study, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        add(study, text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="side_1"), "has no column 'side_1'"),
        (lambda t: t.iloc[:0], "has no rows"),
        (lambda t: t.assign(side_1="top"), "row 1: side_1 is 'top'"),
        (lambda t: t.assign(sentence_1=" "), "row 1: sentence_1 is ''"),
        (lambda t: t.assign(sentence_1="x", sentence_2=" x "), "row 1: both sentences are 'x'"),
        (lambda t: t.assign(group=range(len(t))), "row 1: group is '0'"),
        (lambda t: t.assign(group=t["trial"]), "row 2: participant 1 is in groups 1 and 2"),
        (lambda t: t.assign(trial=1), "row 2: participant 1 has trial 1 twice"),
        (lambda t: t.assign(stimulus=1), "row 2: stimulus 1 has other sentences"),
        (lambda t: t.drop(columns="stimulus").assign(item=1), "row 2: item 1 has other sentences"),
        (lambda t: t.drop(columns=["stimulus", "item"]).assign(
            sentence_1="x", sentence_2="y", condition="c", model_1="", model_2=""
        ), "has item 1 twice"),
        (lambda t: t[t["trial"] != 2], "the 5 trials of participant 1 are not numbered 1 to 5"),
        (lambda t: t.assign(sentence_1="x" * 3000), "row 1: sentence_1 is 'xxx"),
    ],
)  # fmt: skip
def test_errors_in_rows_of_trials_are_reported(
    study: Study, trials: pd.DataFrame, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    path = study.folder / "trials.csv"
    change(trials).to_csv(path, index=False)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        read_design(path)
    assert str(path) in str(error.value)


def test_errors_in_the_format_of_trials_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,a\n1,2\n", "utf-8")
    with pytest.raises(InputError, match="two columns 'a'"):
        read_design(path)
    path.write_text("a,b\n1,2,3\n", "utf-8")
    with pytest.raises(InputError, match="line 2 has 3 cells, the header 2"):
        read_design(path)
    path.write_text('a,b\n"1,2\n', "utf-8")
    with pytest.raises(InputError, match="is not CSV"):
        read_design(path)


def test_translated_texts_are_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "texts.toml"
    path.write_text('continue_button = "Weiter"\nprogress = "{number} von {total}"\n', "utf-8")
    texts = read_texts(path, make_presentation(TrialOptions()))
    assert texts["continue_button"] == "Weiter"
    assert texts["break_title"] == read_default_texts()["break_title"]
    for line, message in (
        ('continue_buton = "x"', "did you mean 'continue_button'"),
        ('continue_button = ""', "give a text"),
        ("continue_button = 3", "give a text"),
        ('progress = "{nummer}"', r"contains \{nummer\}; the page fills in \{number\}, \{total\}"),
        ('continue_button = "{x}"', "the page fills in no braces"),
        (f'continue_button = "{"x" * 20_000}"', "20000 characters"),
        ("continue_button", "as TOML"),
    ):
        path.write_text(line, "utf-8")
        with pytest.raises(InputError, match=message):
            read_texts(path, make_presentation(TrialOptions()))


def test_default_texts_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "texts.toml"
    path.write_text(read_text_source(), "utf-8")
    assert read_texts(path, make_presentation(TrialOptions())) == read_default_texts()


def test_commands_create_and_check_a_study(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(study.folder / "trials.csv")
    assert main(["experiment", "new", str(tmp_path / "My study!"), "--trials", table]) == 0
    out = capsys.readouterr().out
    assert "My-study: 4 assignments in 2 groups, 6 trials each, 2 practice trials" in out
    assert main(["experiment", "check", str(tmp_path / "My study!")]) == 0
    assert "note: consent.md" in capsys.readouterr().out
    assert main(["experiment", "new", str(tmp_path / "My study!"), "--trials", table]) == 2
    assert "not empty" in capsys.readouterr().err
    assert main(["experiment", "check", str(tmp_path / "none")]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_invalid_trials_leave_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\n1\n", "utf-8")
    with pytest.raises(InputError, match="has no column 'participant'"):
        create_study(tmp_path / "study", path)
    assert not (tmp_path / "study").exists()


def test_study_folder_is_written_atomically(
    tmp_path: Path, trials: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    trials.to_csv(tmp_path / "t.csv", index=False)

    def write(path: Path, content: bytes) -> None:
        if path.name == "texts.toml":
            raise OSError(28, "No space left on device", path)
        path.write_text(content.decode(), "utf-8")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write)
        with pytest.raises(OutputError) as error:
            create_study(tmp_path / "study", tmp_path / "t.csv")
    assert str(error.value) == f"cannot write {tmp_path / 'study'}: No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
    (tmp_path / "study").mkdir()
    monkeypatch.chdir(tmp_path / "study")
    assert create_study(".", tmp_path / "t.csv").study.name == "study"  # who is there stays there
    assert Path.cwd().samefile(tmp_path / "study")


def test_golan2023_preset_has_the_published_settings(
    trials: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials.to_csv(tmp_path / "t.csv", index=False)
    new = ["experiment", "new", str(tmp_path / "s"), "--trials", str(tmp_path / "t.csv")]
    assert main([*new, "--preset", "golan2023"]) == 0
    assert "note: golan2023 had 12 catch trials per participant" in capsys.readouterr().out
    study = read_study(tmp_path / "s")
    session, trial = study.session, study.trial
    assert (session.time_limit_minutes, session.break_every) == (90, 0)
    assert (trial.levels, trial.progress) == (3, "foot")
    assert "encounter in the world, as either speech or written text" in study.texts["trial_prompt"]
    levels = [study.texts[f"confidence_{level}"] for level in (1, 2, 3)]
    assert levels == ["somewhat confident", "confident", "very confident"]
    # Nothing else differs from any other new study.
    plain = create_study(tmp_path / "plain", tmp_path / "t.csv")
    changed = {key for key in study.texts if study.texts[key] != plain.texts[key]}
    assert changed == {"trial_prompt", "confidence_1", "confidence_2", "confidence_3"}
    with pytest.raises(UnknownNameError, match="unknown preset 'golan'"):
        create_study(tmp_path / "other", tmp_path / "t.csv", "golan")


def test_redirect_urls_follow_the_recruiter() -> None:
    sona = Recruiter(
        name="sona",
        participant="id",
        redirect="https://x.sona.example/credit?survey_code={participant}",
    )
    assert sona.make_completion_link("complete") == (
        None,
        "https://x.sona.example/credit?survey_code={participant}",
    )
    # Who declines, fails or is too late is not sent to the page that gives credit.
    for outcome in ("declined", "failed_checks", "time_limit"):
        assert sona.make_completion_link(outcome) == (None, None)
    assert sona.make_study_url("https://s.example/") == "https://s.example/?id=%SURVEY_CODE%"
    prolific = Recruiter(
        name="prolific",
        participant="PROLIFIC_PID",
        parameters=("STUDY_ID", "mine"),
        redirect="https://app.prolific.com/submissions/complete?cc={code}",
        codes=Codes(complete="C1"),
    )
    assert prolific.make_study_url("https://s.example/") == (
        "https://s.example/?PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}"
    )
    assert prolific.make_completion_link("failed_checks")[0] == "C1"
    assert prolific.make_completion_link("declined") == (None, None)
    assert prolific.title == "Prolific"
    with pytest.raises(
        InputError, match=r"redirect contains \{who\}; the page fills in \{code\} there"
    ):
        Recruiter(name="x", redirect="https://x.example/{who}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "a b"\nprompt = "x"', "questions[0].name is 'a b'; use up to 64 letters"),
        (
            'name = "a"\nprompt = "x"\nkind = "choice"',
            "is of kind choice and has 0 options; change one",
        ),
        (
            'name = "a"\nprompt = "x"\noptions = ["y"]',
            "is of kind text and has 1 options; change one",
        ),
        (
            'name = "a"\nprompt = "x"\nkind = "choice"\noptions = ["y"]\nadmit = ["z"]',
            "the question 'a' has no option 'z'; give one of its options",
        ),
        (
            'name = "a"\nprompt = "x"\nkind = "choices"\noptions = ["y"]\ncorrect = "y"',
            "must be a required choice to screen or check people",
        ),
        (
            'name = "a"\nprompt = "x"\nkind = "choice"\noptions = ["y"]\nadmit = ["y"]\n'
            'when = "after"',
            "comes after the trials; it cannot screen participants",
        ),
        (
            'name = "a"\nprompt = "x"\n[[questions]]\nname = "a"\nprompt = "y"',
            "two questions have the name 'a'; give each its own",
        ),
    ],
)
def test_invalid_questions_are_rejected(study: Study, text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        add(study, f"[[questions]]\n{text}\n")


@pytest.mark.parametrize("language", sorted({*PAGE_LANGUAGES} - {"en"}))
def test_bundled_translations_are_complete(
    language: str, trials: pd.DataFrame, tmp_path: Path
) -> None:
    trials.to_csv(tmp_path / "t.csv", index=False)
    new = ["experiment", "new", str(tmp_path / "s"), "--trials", str(tmp_path / "t.csv")]
    assert main([*new, "--language", language]) == 0
    study = read_study(tmp_path / "s")
    assert (study.study.language, study.study.direction) == (
        language,
        get_language(language).direction,
    )
    own = tomllib.loads(read_text_source(language))
    english = read_default_texts()
    assert [*own] == [*english]
    for key, text in own.items():
        # Every name that the page fills in is there, and nothing was left in English.
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", english[key]))
        assert text.strip() != english[key] or key in ("progress", "question_no"), key


def test_write_folder_works_from_any_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {"a": b"1", "below/b": b"2"}
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for folder in (Path("new/one"), Path(".")):
        write_folder(folder, contents)
        assert {name: (folder / name).read_bytes() for name in contents} == contents
    assert Path.cwd().samefile(tmp_path / "here")
    assert sorted(path.name for path in Path("new").iterdir()) == ["one"]
