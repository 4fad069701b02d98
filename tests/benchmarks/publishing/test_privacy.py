"""What of people leaves, with identifiers planted wherever they might be.

Tests `contstim.benchmarks.publishing.privacy` and `contstim.benchmarks.publishing.material`.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from adaptive_studies import make_adaptive, take_part
from folders import ABOUT, PEOPLE, make_choices, make_scores, texts_of, write_all
from studies import RECRUITER, add, make_trials
from talking import answers_to, event, opening, play

from contstim.benchmarks.publishing.folder import check_folder, read_published
from contstim.benchmarks.publishing.material import study_material
from contstim.benchmarks.publishing.privacy import SUSPECTS, Privacy, without_identifiers
from contstim.cli import main
from contstim.errors import InputError
from contstim.experiment.new import new_study
from contstim.experiment.store import Store
from contstim.experiment.study import Study

PLANTED = "5f3e9a1c77b2c4d0aa91"
QUESTIONS = """
[[questions]]
name = "remarks"
prompt = "What did you think?"
when = "after"
required = false

[[questions]]
name = "native"
prompt = "Is English your first language?"
kind = "choice"
options = ["yes", "no"]
"""


def everything(folder: Path) -> str:
    return "\n".join(f"{name}\n{text}" for name, text in texts_of(folder).items())


def publish(study: Path, folder: Path, *options: str) -> int:
    command = ["publish", str(study), "--about", str(folder / "about.toml")]
    return main([*command, "--out", str(folder / "out"), "--date", "2026-11-25", *options])


def test_an_identifier_planted_in_a_table_and_beside_it_is_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = [PLANTED, *PEOPLE[1:]]
    choices = make_choices(people)
    whose = choices["participant"] == PLANTED
    choices["comment"] = choices["participant"].where(whose, "nice")  # a column on no list
    choices["url"] = "https://example.org/?PROLIFIC_PID=" + choices["participant"]
    choices["group"] = choices["group"].where(~whose, f"of {PLANTED}")  # within a listed one
    choices["note"] = choices["participant"].where(whose, "kept").map("of {}".format)  # asked for
    choices["answered_at"] = "2026-11-21T12:00:00.123Z"
    write_all(tmp_path, choices)
    registered = f"{PLANTED} was a pilot, at 10.20.30.40 on 2026-11-21T12:00:00Z."
    (tmp_path / "plan.md").write_text(registered, "utf-8")
    (tmp_path / "plan.toml").write_text(f"# leave out\n[exclusions]\nparticipants = ['{PLANTED}']")
    options = ["--keep", "note", "--preregistration", str(tmp_path / "plan.md")]
    options += ["--plan", str(tmp_path / "plan.toml"), "--scores", str(tmp_path / "scores.csv")]
    assert publish(tmp_path / "choices.csv", tmp_path, *options) == 0
    text = everything(tmp_path / "out")
    assert PLANTED not in text
    assert not any(who in text for who in PEOPLE)
    for gone in ("10.20.30.40", "12:00:00", "PROLIFIC_PID", "comment,", "nice"):
        assert gone not in text
    human = read_published(tmp_path / "out")
    assert {*human.choices["participant"]} == {f"p{k:02}" for k in range(1, 13)}
    assert "of p01" in {*human.choices["group"]}
    assert "p01 was a pilot, at (removed) on 2026-11." in text
    ethics = (tmp_path / "out" / "ETHICS.md").read_text("utf-8")
    for column in ("comment", "url", "answered_at"):
        assert f"| choices, {column} | a column that is not on the list | removed |" in ethics
    assert "| choices, group | identifiers within texts |" in ethics
    assert "| the preregistration | an exact time | removed; of a time the month stays |" in ethics
    excluded = pd.read_csv(tmp_path / "out" / "results" / "walks-choices" / "excluded.csv")
    assert excluded["participant"].tolist() == ["p01"]
    assert "choices, comment" in capsys.readouterr().err


LEAKS = {
    "another case": ("condition", f"of {PEOPLE[0].upper()}", PEOPLE[0].upper()),
    "an address with umlauts": ("group", "jürgen@uni-köln.de", "köln"),
    "IPv6": ("group", "fe80::1ff:fe23:4567:890a", "fe80"),
    "a date as in America": ("when", "11/25/2026 14:03:12", "14:03"),
    "a date in words": ("when", "Tue Oct 08 00:23:24 PDT 2019", "23:24"),
    "seconds since 1970": ("when", "at 1764086400", "1764086400"),
    "a recruiter's": ("when", "5f3e9a1c77b2c4d0aa91bb22", "5f3e9a1c77b2c4d0aa91bb22"),
    "a worker's": ("when", "A2X8QWERTY77AB", "A2X8QWERTY77AB"),
    "what was typed": ("input", "I am Maria", "Maria"),
    "a task's": ("assignment", "of Maria", "Maria"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_what_is_of_a_person_leaves_in_no_form(name: str) -> None:
    column, cell, secret = LEAKS[name]
    choices = make_choices().assign(**{column: cell})
    privacy = Privacy()
    out = without_identifiers(choices, privacy, ["when"])
    assert secret not in out.to_csv()
    assert any(column in where for where, _, _ in privacy.changes)


def test_times_that_are_numbers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_all(tmp_path, make_choices().assign(when=1764086400123))
    options = ["--keep", "when", "--scores", str(tmp_path / "scores.csv")]
    assert publish(tmp_path / "choices.csv", tmp_path, *options) == 2
    assert "line 2 holds an exact time; take it out" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_scores_and_response_times_are_no_suspects() -> None:
    plain = "-16.1764086400123,1764,2.5e-05,14:03,ANTIDISESTABLISH,a:b:c,1.2.3,0.1517412345678"
    assert [what for what, pattern in SUSPECTS.items() if pattern.search(plain)] == []


def test_an_identifier_within_a_sentence_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    choices = make_choices()
    choices["sentence_2"] = choices["sentence_2"].str.replace("A 3 young", f"A {PEOPLE[2]} young")
    write_all(tmp_path, choices)
    scores = ["--scores", str(tmp_path / "scores.csv")]
    assert publish(tmp_path / "choices.csv", tmp_path, *scores) == 2
    error = capsys.readouterr().err
    assert "would hold an identifier of a participant" in error
    assert PEOPLE[2] not in error
    assert not (tmp_path / "out").exists()


def test_short_names_are_replaced_as_participants_alone() -> None:
    choices = make_choices(["Robert", "17", "3"])
    choices["sentence_1"] = choices["sentence_1"].str.replace("old men", "men of Robert")
    privacy = Privacy()
    out = without_identifiers(choices, privacy)
    assert out["participant"].unique().tolist() == ["p1", "p2", "p3"]
    assert out["sentence_1"].equals(choices["sentence_1"])
    assert privacy.stand_in == {}


def test_longer_identifiers_are_replaced_before_their_parts() -> None:
    privacy = Privacy()
    privacy.add(["ab1234", "ab123456"], "x")
    assert privacy.text("ab123456 and ab1234", "here") == "x and x"
    assert privacy.changes == [("here", "identifiers within texts", "replaced by what stands for "
                                "them")]  # fmt: skip
    with pytest.raises(InputError, match="b.txt would hold an identifier"):
        privacy.check({"a.txt": b"nothing", "b.txt": b"an ab1234"})


def asked(folder: Path, participants: int = 4) -> Study:
    make_trials(participants=participants).to_csv(folder / "trials.csv", index=False)
    study = new_study(folder / "study", folder / "trials.csv")
    return add(study, RECRUITER + QUESTIONS)


def test_a_study_leaves_recruiter_texts_and_times_behind(tmp_path: Path) -> None:
    study = asked(tmp_path)
    consent = study.folder / study.consent.file
    consent.write_text("We keep nothing. Write to me@example.org.\n", "utf-8")
    study = add(study, "")
    with Store(study) as store:
        for number in range(5):
            play(store, f"{PLANTED}{number}")
        play(store, f"{PLANTED}9", n=2)
        token, _, _ = store.open(opening(study, f"{PLANTED}8")).result()
        remark = json.dumps({"responses": {"remarks": f"I am {PLANTED}8"}, "rt_ms": 5})
        store.add_events(token, [event(detail=f"from {PLANTED}8")]).result()
        store.add_events(token, [event("responses", detail=remark)]).result()
    trials = pd.read_csv(tmp_path / "trials.csv")
    make_scores(trials).to_csv(tmp_path / "scores.csv", index=False)
    (tmp_path / "about.toml").write_text(ABOUT, "utf-8")
    (tmp_path / "licensed.txt").write_text("Nobody saw this one.\n", "utf-8")
    assert publish(study.folder, tmp_path, "--scores", str(tmp_path / "scores.csv")) == 0
    out = tmp_path / "out"
    text = everything(out)
    assert PLANTED not in text
    for gone in ("example.org", "DONE1", "prolific", "answered_at,", "PROLIFIC_PID", "12:00:00"):
        assert gone not in text
    ethics = (out / "ETHICS.md").read_text("utf-8")
    assert "7 people began, 5 answered every trial" in ethics
    assert "Outcomes: complete 5, unfinished 2." in ethics
    assert "| study.toml | the recruiter, with addresses and codes | removed |" in ethics
    assert "| events | times and free texts | the table was removed |" in ethics
    assert check_folder(out) == []
    choices = read_published(out).choices
    assert choices["participant"].nunique() == 5
    shown = json.loads((out / "materials" / "study.json").read_text("utf-8"))
    assert "recruiter" not in shown
    assert shown["questions"][1]["options"] == ["yes", "no"]
    assert "Write to (removed)." in (out / "materials" / "consent.txt").read_text("utf-8")


@pytest.mark.parametrize(
    ("no", "line"),
    [
        (5, "- Is English your first language? yes: 6; no: 5."),
        (4, "- Is English your first language? (counts are not given: an answer is of fewer than "
            "5)"),
    ],
)  # fmt: skip
def test_counts_of_few_people_are_not_given(no: int, line: str, tmp_path: Path) -> None:
    study = asked(tmp_path, participants=6)
    with Store(study) as store:
        for number in range(6 + no):
            token, bundle, _ = store.open(opening(study, f"{PLANTED}{number:x}")).result()
            said = {"native": "yes" if number < 6 else "no"}
            detail = json.dumps({"responses": said, "rt_ms": 5})
            store.add_events(token, [event("responses", detail=detail)]).result()
            store.add_answers(token, answers_to(bundle["trials"])).result()
            store.finish(token).result()
    material = study_material(study.folder)
    assert line in [f"- {sentence}" for sentence in material.people]
    assert PLANTED not in "".join([*material.people, *material.files.values()])


def test_nothing_is_published_before_somebody_is_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = asked(tmp_path)
    with Store(study) as store:
        play(store, "ann", n=2)
    (tmp_path / "about.toml").write_text(ABOUT, "utf-8")
    assert publish(study.folder, tmp_path) == 2
    assert "nobody has answered every trial" in capsys.readouterr().err


OF_UNIGRAM = '[[models]]\nname = "unigram"\nsource = "contstim"\nlicence = "MIT"\n'


def test_an_adaptive_study_is_published_with_its_pool(tmp_path: Path) -> None:
    study = make_adaptive(tmp_path)
    path = study.folder / "scores.csv"
    given = pd.read_csv(path).melt("sentence", var_name="model", value_name="log_prob")
    surprisals = given["model"] == "c"
    stated = given.assign(unit=np.where(surprisals, "surprisal", "nats"))
    stated["log_prob"] = given["log_prob"].where(~surprisals, -given["log_prob"])
    stated.to_csv(path, index=False)
    given["unit"] = "nats"
    with Store(study) as store:
        for number in range(3):
            take_part(store, f"{PLANTED}{number}")
    models = "".join(
        f'[[models]]\nname = "{name}"\nsource = "a paper"\nlicence = "MIT"\n' for name in "abc"
    )
    (tmp_path / "about.toml").write_text(ABOUT + models, "utf-8")
    (tmp_path / "licensed.txt").write_text("Nobody saw this one.\n", "utf-8")
    assert publish(study.folder, tmp_path) == 0
    out = tmp_path / "out"
    assert PLANTED not in everything(out)
    human = read_published(out)
    assert human.scores is not None
    assert human.scores["sentence"].nunique() >= 120  # the whole pool's
    columns = ["sentence", "model", "unit", "log_prob"]
    published = human.scores[columns].merge(given, on=columns)
    assert len(published) == len(human.scores)
    assert human.choices["propensity"].notna().any()
    # So it is under another model, of which the study has no scores.
    (tmp_path / "about.toml").write_text(ABOUT + OF_UNIGRAM, "utf-8")
    other = ["--model", "unigram=contstim:unigram?unknown=unk", "--out", str(tmp_path / "other")]
    assert publish(study.folder, tmp_path, *other) == 0
    scores = read_published(tmp_path / "other").scores
    assert scores is not None
    assert scores["sentence"].nunique() >= 120
    shown = json.loads((out / "materials" / "study.json").read_text("utf-8"))
    assert shown["adaptive"]["seed"] == 4
