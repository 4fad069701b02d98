"""Test ratings, self-paced reading and custom modules up to the export.

Tests `contstim.experiment.presentations` and `contstim.experiment.answer_details`.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from client_messages import age_sessions, answer, event, play, session_request
from studies import ATTENTION, RECRUITER, add, edit

from contstim.cli import main
from contstim.errors import InputError
from contstim.experiment.exporting import describe_columns, list_data_files
from contstim.experiment.maintenance import extend_study
from contstim.experiment.page_data import fnv1a, hash_wrong_answers, make_session_data
from contstim.experiment.pages import make_study_files
from contstim.experiment.scaffold import create_study, write_sentence_trials
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data

ITEMS = """sentence,item,condition,question,expected
The key to the cabinets were on the table.,1,attracted,Was the key on the table?,yes
The keys to the cabinet was on the table.,1,other,Was the key on the table?,no
The horse raced past the barn fell.,2,attracted,,
The horse that was raced past the barn fell.,2,other,,
It rained.,3,filler,,
"""

RATED = """sentence,condition
The key to the cabinets were on the table.,odd
It rained.,plain
"""

OWN = """export default {
  node: (trial, { Screen }) => ({
    type: Screen,
    show: async () => ({ choice: trial.shown.word.length, rt_ms: 1, detail: { said: "x" } }),
  }),
};
"""


def lay_out(tmp_path: Path, presentation: str, table: str, participants: int = 4) -> Study:
    (tmp_path / "items.csv").write_text(table, "utf-8")
    new = ["experiment", "new", str(tmp_path / presentation), "--presentation", presentation]
    more = ["--stimuli", str(tmp_path / "items.csv"), "--participants", str(participants)]
    assert main([*new, *more]) == 0
    return read_study(tmp_path / presentation)


@pytest.fixture
def reading(tmp_path: Path) -> Study:
    return lay_out(tmp_path, "reading", ITEMS)


@pytest.fixture
def rating(tmp_path: Path) -> Study:
    study = lay_out(tmp_path, "rating", RATED)
    check = '[[attention]]\nafter = 1\nsentence = "Choose 7 here."\nexpected = "7"\n'
    return add(study, check)


@pytest.fixture
def own(study: Study) -> Study:
    """Return a study of single words with a custom module."""
    rows = [f"{p},1,{n},c,{word}" for p in (1, 2, 3) for n, word in enumerate(("tree", "sun"), 1)]
    table = "\n".join(["participant,group,trial,condition,word", *rows])
    (study.folder / "trials.csv").write_text(table + "\n", "utf-8")
    (study.folder / "mine.js").write_text(OWN, "utf-8")
    path = study.folder / "study.toml"
    text = path.read_text("utf-8")
    text = text[: text.index("[[practice]]")] + text[text.index("# Questions before") :]
    path.write_text(
        text.replace('presentation = "choice"', 'presentation = "mine.js"\ncolumns = ["word"]'),
        "utf-8",
    )
    return read_study(study.folder)


def make_answer(study: Study, shown: dict[str, str]) -> dict[str, Any]:
    """Return the answer that the page sends for a trial."""
    choice = (study.presentation.choices(shown) or (4,))[0]
    words = shown.get("sentence", "").split()
    times = [250.5 + place for place in range(len(words))]
    detail = {"words": words, "rt_ms": times, "question_rt_ms": 800} if words else {"said": "x"}
    return {"choice": choice, "detail": json.dumps(detail)}


def take_part(study: Study, name: str) -> dict[str, Any]:
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, name)).result()
        trials = [*bundle["practice"], *bundle["trials"]]
        sent = [answer(t["trial"], **make_answer(study, t["shown"])) for t in trials]
        received = store.add_answers(token, sent).result()
        assert len(received.acknowledged) == len(trials), received
        store.add_events(token, [event(), event("environment")]).result()
        return store.finish(token).result()


def test_bars_in_sentences_give_a_note(reading: Study, tmp_path: Path) -> None:
    assert not any("contain a bar" in note for note in reading.notes)
    (tmp_path / "bars").mkdir()
    table = ITEMS.replace("It rained.", "The old man| the boats.")
    study = lay_out(tmp_path / "bars", "reading", table)
    (note,) = (note for note in study.notes if "contain a bar" in note)
    assert note == (
        "1 sentences contain a bar, which separates the regions that are read one at a "
        "time; do not use bars for anything else"
    )


def test_bars_between_spaces_are_rejected(
    reading: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items = tmp_path / "items.csv"
    items.write_text("sentence\nIt rained.\nHe typed cat log | grep x.\n", "utf-8")
    new = ["experiment", "new", str(tmp_path / "new"), "--presentation", "reading"]
    assert main([*new, "--stimuli", str(items)]) == 2
    fault = "row 2: sentence 'He typed cat log | grep x.' has a bar between spaces; attach a bar"
    assert fault in capsys.readouterr().err
    with pytest.raises(InputError, match="practice.* sentence .* has a bar between spaces"):
        add(reading, '\n[[practice]]\nsentence = "The dog || barked."\n')


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("text\nA b.\n", "has no sentences in a column 'sentence'; give one per row"),
        (
            "sentence,item\nA b.,1\nA c.,1\n",
            "item 1 has 2 versions without a condition; distinguish",
        ),
        (
            "sentence,item,condition\nA.,1,x\nB.,1,y\nC.,1,z\nD.,2,x\nE.,2,y\n",
            "item 2 has no version of condition 'z', which others have; give all items the same "
            "conditions, or fillers one version",
        ),
        ("sentence,group\nA.,1\n", "have a column 'group', which the design adds; rename it"),
    ],
)
def test_invalid_sentence_tables_are_rejected(
    table: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "items.csv").write_text(table, "utf-8")
    new = ["experiment", "new", str(tmp_path / "s"), "--presentation", "rating"]
    assert main([*new, "--stimuli", str(tmp_path / "items.csv")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_reading_times_are_exported_by_word(reading: Study, tmp_path: Path) -> None:
    assert take_part(reading, "A")["outcome"] == "complete"
    collected = read_study_data(reading)
    answers, words = collected.answers, collected.words
    assert collected.choices.empty
    by_item = answers.set_index("item")
    assert by_item["choice"].to_dict() == {"1": 1, "2": 0, "3": 0}
    assert by_item["right"].to_dict() == {"1": True, "2": None, "3": None}
    assert by_item.loc["1", "question_rt_ms"] == 800
    first = words[words["item"] == "1"]
    assert " ".join(first["word"]) == "The key to the cabinets were on the table."
    assert first["position"].tolist() == list(range(1, 10))
    assert first["rt_ms"].tolist() == [250.5 + place for place in range(9)]
    assert len(collected.practice) == 2
    assert collected.sessions.loc[0, ["catch_right", "catch_shown"]].tolist() == [1, 1]
    command = ["experiment", "export", str(reading.folder), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    assert {"answers.csv", "words.csv"} < {path.name for path in (tmp_path / "out").iterdir()}
    assert not (tmp_path / "out" / "choices.csv").exists()


FACTORS = """sentence,item,condition,attractor
The key to the cabinets were old.,keys,a,plural
The key to the cabinet were old.,keys,b,singular
The men near the door was tall.,men,a,singular
The men near the doors was tall.,men,b,plural
"""


@pytest.mark.parametrize("presentation", ["rating", "reading"])
def test_exports_keep_items_and_factors(presentation: str, tmp_path: Path) -> None:
    study = lay_out(tmp_path, presentation, FACTORS)
    for name in ("A", "B"):
        take_part(study, name)
    assert main(["experiment", "export", str(study.folder), "--out", str(tmp_path / "out")]) == 0
    given = pd.read_csv(tmp_path / "items.csv").set_index("sentence")
    answers = pd.read_csv(tmp_path / "out" / "answers.csv").set_index("sentence")
    assert len(answers) == 4
    for name in ("item", "condition", "attractor"):
        assert answers[name].to_dict() == given[name].to_dict()
    assert answers["stimulus"].to_dict() == dict(zip(given.index, range(1, 5), strict=True))
    if presentation == "reading":
        words = pd.read_csv(tmp_path / "out" / "words.csv").set_index("stimulus")
        assert len(words) == 28
        by_stimulus = answers.set_index("stimulus")
        for name in ("item", "condition", "attractor"):
            assert words[name].to_dict() == by_stimulus[name].to_dict()


def test_custom_pairs_keep_items_and_factors(tmp_path: Path) -> None:
    rows = [
        {"item": item, "attractor": a, "verb": v, "sentence_1": f"The {item} {a} {v}."}
        for item in ("key", "door", "road", "note")
        for a in ("sg", "pl")
        for v in ("was", "has")
    ]
    given = pd.DataFrame(rows).assign(sentence_2=lambda t: t["sentence_1"] + " Not.", source="me")
    given.to_csv(tmp_path / "pairs.csv", index=False)
    trials, out = tmp_path / "trials.csv", tmp_path / "out"
    design = ["design", "trials", "--pairs", str(tmp_path / "pairs.csv")]
    design += ["--factors", "attractor", "verb", "--participants", "4", "--out", str(trials)]
    assert main(design) == 0
    assert main(["experiment", "new", str(tmp_path / "study"), "--trials", str(trials)]) == 0
    study = read_study(tmp_path / "study")
    for name in "AB":
        take_part(study, name)
    assert main(["experiment", "export", str(study.folder), "--out", str(out)]) == 0
    choices = pd.read_csv(out / "choices.csv").set_index("stimulus")
    assert len(choices) == 8
    by_row = given.set_axis(range(1, len(given) + 1)).loc[choices.index]
    for name in given:
        assert choices[name].tolist() == by_row[name].tolist()
    assert choices["condition"].tolist() == (by_row["attractor"] + "." + by_row["verb"]).tolist()
    texts = sorted({*choices["sentence_1"], *choices["sentence_2"]})
    table = pd.DataFrame({"sentence": texts, "a": range(len(texts)), "b": -1.0})
    table.to_csv(tmp_path / "scores.csv", index=False)
    evaluated = ["evaluate", str(out / "choices.csv"), "--scores", str(tmp_path / "scores.csv")]
    more = ["--condition", "attractor", "--mixed-models", "--out", str(tmp_path / "results")]
    assert main([*evaluated, *more]) == 0
    mixed = pd.read_csv(tmp_path / "results" / "mixed_models.csv")
    joined = mixed.merge(choices.reset_index(), on=["participant", "trial"], validate="1:1")
    assert len(joined) == len(choices)
    for name in ("item", "attractor", "verb", "source", "rt_ms"):
        assert joined[f"{name}_x"].tolist() == joined[f"{name}_y"].tolist()


def test_extension_keeps_stimulus_numbers_and_items(tmp_path: Path) -> None:
    study = lay_out(tmp_path, "rating", FACTORS)
    # The same sentences in another order, numbered otherwise.
    head, *sentences = FACTORS.splitlines()
    (tmp_path / "items.csv").write_text("\n".join([head, *reversed(sentences)]) + "\n", "utf-8")
    write_sentence_trials(tmp_path / "items.csv", tmp_path, participants=6, seed=1)
    added = extend_study(study, tmp_path / "trials.csv")
    table = pd.read_csv(study.folder / "trials.csv")
    assert set(added) < set(table["participant"])
    of_sentences = table.drop_duplicates(["sentence", "item", "stimulus"]).set_index("sentence")
    assert of_sentences["stimulus"].to_dict() == dict(
        zip((line.split(",")[0] for line in sentences), range(1, 5), strict=True)
    )


def test_items_with_versions_need_stimulus_numbers(tmp_path: Path) -> None:
    study = lay_out(tmp_path, "rating", FACTORS)
    table = pd.read_csv(study.folder / "trials.csv").drop(columns="stimulus")
    table["item"] = table["item"].map({"keys": 1, "men": 2})
    table.to_csv(study.folder / "trials.csv", index=False)
    with pytest.raises(InputError) as error:
        read_study(study.folder)
    assert str(error.value).endswith(
        "has other sentences, condition or models before; number the sentences in a column "
        "'stimulus'"
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"choice": 3}, "choice is 3; it is one of 1, 2"),
        ({"detail": ""}, "detail has no list of words"),
        ({"detail": '{"words": ["A"], "rt_ms": []}'}, "detail needs a time for each of its 1"),
        ({"detail": '{"words": ["A"], "rt_ms": [-1]}'}, "detail needs a time for each of its 1"),
        ({"detail": '{"words": ["A"], "rt_ms": [true]}'}, "detail needs a time for each"),
        ({"detail": '{"words": ["A"], "rt_ms": [9]}'}, "the words of the answer differ from the"),
    ],
)
def test_invalid_reading_answers_are_rejected(
    reading: Study, change: dict[str, Any], why: str
) -> None:
    with Store(reading) as store:
        token, bundle, _ = store.open(session_request(reading)).result()
        trial = next(t for t in bundle["trials"] if t["shown"].get("question"))
        good = make_answer(reading, trial["shown"])
        refused = store.add_answers(token, [answer(trial["trial"], **{**good, **change})]).result()
        assert refused.refused[0][1].startswith(why)


def test_replacement_works_in_rating_studies(
    rating: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    take_part(rating, "A")
    with Store(rating) as store:
        store.open(session_request(rating, "B")).result()
    age_sessions(rating, 400)
    out = tmp_path / "replace.csv"
    command = ["experiment", "replace", str(rating.folder), "--out", str(out)]
    assert main(command) == 0
    assert pd.read_csv(out)["reason"].str.startswith("unfinished: 0 of ").tolist() == [True]
    capsys.readouterr()
    assert main([*command, "--exclude", "trials<1"]) == 2
    message = "--exclude applies to choices between two sentences"
    assert message in capsys.readouterr().err


def test_rating_studies_record_scale_and_checks(rating: Study) -> None:
    assert take_part(rating, "A")["outcome"] == "complete"  # one failed check of two that end it
    collected = read_study_data(rating)
    assert collected.answers["choice"].tolist() == [1, 1]
    assert collected.checks[["expected", "choice", "right"]].to_numpy().tolist() == [
        ["7", 1, False]
    ]
    path = rating.folder / "study.toml"
    path.write_text(path.read_text("utf-8").replace("points = 7", "points = 5"), "utf-8")
    with pytest.raises(InputError, match=re.escape("expected is '7'; here it is '1' or '2'")):
        read_study(rating.folder)
    path.write_text(path.read_text("utf-8").replace('"7"', '"5"'), "utf-8")
    with pytest.raises(InputError, match=r"the trials or \[trial\] of .* differ from those for"):
        Store(read_study(rating.folder))


@pytest.mark.usefixtures("vendored")
def test_custom_module_details_become_columns(own: Study) -> None:
    assert take_part(own, "A")["outcome"] == "complete"
    answers = read_study_data(own).answers
    assert answers[["word", "choice", "detail_said"]].to_numpy().tolist() == [
        ["tree", 4, "x"],
        ["sun", 4, "x"],
    ]
    bundle = make_session_data(own, 1)
    assert bundle["trials"][0]["shown"] == {"word": "tree"}
    module = bundle["settings"]["presentation"]["module"]
    (shipped,) = [path for path in make_study_files(own, "", {}) if path.endswith(module)]
    assert shipped.startswith("static/")
    (own.folder / "mine.js").unlink()
    with pytest.raises(InputError, match="which trial.presentation names"):
        read_study(own.folder)


def send(study: Study, details: list[dict[str, Any]]) -> None:
    """Answer trials of one session with the given details, without finishing it."""
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study)).result()
        sent = []
        for t, detail in zip(bundle["trials"], details, strict=False):
            given = make_answer(study, t["shown"])
            if study.trial.presentation == "reading":  # whose words must be those of the trial
                detail = {**json.loads(given["detail"]), **detail}
            sent.append(answer(t["trial"], **given | {"detail": json.dumps(detail)}))
        assert not store.add_answers(token, sent).result().refused


HOSTILE = {"row_id": "7", "": "x", "participant": "me", "a b": 1}


@pytest.mark.parametrize("name", ["reading", "own"])
def test_malformed_details_do_not_block_the_export(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    study = request.getfixturevalue(name)
    send(study, [HOSTILE | {f"x{n}": n for n in range(1000)}] * 2)
    send(study, [HOSTILE | ({"rt_ms": [1, 2]} if name == "own" else {})] * 2)
    command = ["experiment", "export", str(study.folder), "--out", str(tmp_path / "out"), "--all"]
    assert main(command) == 0
    with (tmp_path / "out" / "answers.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert len(header) == len({*header})
    assert not {"", "row_id", "x1"} & {*header}
    assert len([column for column in header if column.startswith("detail_")]) <= 50
    assert all("me" not in row[header.index("participant")] for row in rows)


def test_most_frequent_details_become_columns(own: Study) -> None:
    send(own, [{f"x{n}": n for n in range(60)}] * 2)
    for name in "AB":
        take_part(own, name)
    answers = read_study_data(own).answers
    assert answers["detail_said"].dropna().tolist() == ["x"] * 4


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("participant,group,trial,condition,word,", "has a column without a name, number 6"),
        ("participant,group,trial,condition,word,row_id", "has a column 'row_id'"),
    ],
)
def test_reserved_column_names_are_rejected(own: Study, header: str, message: str) -> None:
    path = own.folder / "trials.csv"
    rows = path.read_text("utf-8").splitlines()[1:]
    path.write_text("\n".join([header, *(f"{row},1" for row in rows)]), "utf-8")
    with pytest.raises(InputError, match=message):
        read_study(own.folder)


def test_custom_module_without_columns_shows_pairs(study: Study) -> None:
    (study.folder / "mine.js").write_text(OWN, "utf-8")
    study = edit(study, 'presentation = "choice"', 'presentation = "mine.js"')
    assert make_session_data(study, 1)["trials"][0]["shown"].keys() == {"left", "right"}
    send(study, [{"said": "x"}] * 6)
    choices = read_study_data(study).choices
    assert len(choices) == 6
    assert set(choices["detail_said"]) == {"x"}
    assert choices["rating"].abs().tolist() == [2.5] * 6


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("sentence,expected\nA b.,1\nC d.,9\n", "row 2: expected is '9'; here it is '1' or"),
        ("sentence,condition\nA b.,x\n ,x\n", "row 2: sentence is ''; give 1 to 2000 characters"),
    ],
)
def test_errors_in_sentences_name_the_file(
    table: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "items.csv").write_text(table, "utf-8")
    new = ["experiment", "new", str(tmp_path / "s"), "--presentation", "rating"]
    assert main([*new, "--stimuli", str(tmp_path / "items.csv")]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"contstim: {tmp_path / 'items.csv'}, {message}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'presentation = "reading"',
            'presentation = "listening"',
            "trial.presentation is 'listening'; give one of choice,",
        ),
        (
            'presentation = "reading"',
            'presentation = "mine.js"',
            "[[practice]] 1 has no 'left'; this presentation shows one",
        ),
        (
            'presentation = "reading"',
            'presentation = "reading"\ncolumns = ["word"]',
            "trial.columns is ['word'] with presentation 'reading'; leave it out",
        ),
        (
            'presentation = "reading"',
            'presentation = "choice"',
            "[[practice]] 1 has no 'left'; this presentation shows one",
        ),
        ('expected = "no"', 'expected = "left"', "expected is 'left'; here it is 'yes' or 'no'"),
        ('question = "Did the postman bark?"', "", "expected is 'no'; here it is nothing"),
        ('sentence = "We', 'left = "We', "[[practice]] 2 has no 'sentence'; this presentation"),
    ],
)
def test_incompatible_presentations_are_rejected(
    reading: Study, old: str, new: str, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        edit(reading, old, new)


@pytest.mark.parametrize("name", ["choice", "reading", "rating", "own"])
def test_data_dictionary_describes_every_column(name: str, request: pytest.FixtureRequest) -> None:
    if name == "choice":
        study = add(request.getfixturevalue("study"), ATTENTION + RECRUITER)
        with Store(study) as store:
            play(store, "A")
            play(store, "B", n=3)
    else:
        study = request.getfixturevalue(name)
    take_part(study, "C")
    files = list_data_files(study, read_study_data(study))
    described = describe_columns(study, files.values())
    types = {
        "string": str, "integer": int, "number": (int, float), "boolean": bool, "datetime": str,
    }  # fmt: skip
    for table in files.values():
        for column in table.columns:
            found, values = described[column], table[column].dropna().tolist()
            # A number of trial stands for design trials, an id for others.
            if column not in ("trial", "expected"):
                assert all(isinstance(value, types[found.data_type]) for value in values), column
            if found.data_type == "datetime":
                assert all(pd.notna(pd.to_datetime(value)) for value in values if value), column
            assert not found.levels or {*values} <= {*found.levels}, (column, values)
            if found.minimum is not None:
                assert min(values, default=found.minimum) >= found.minimum, column
            assert (
                found.data_type in ("string", "datetime", "boolean")
                or found.unit
                or found.levels
                or (
                    found.minimum == 1
                    or "column of the design" in found.description
                    or column in ("assignment", "choice")
                )
            ), column


def test_static_pages_get_only_digests_of_wrong_answers(study: Study) -> None:
    study = add(study, ATTENTION)
    checks, right = hash_wrong_answers(study, 2), study.presentation.is_correct
    assert checks is not None
    for trial in study.design.trials[2]:
        for choice in study.presentation.choices(trial.shown) or ():
            told = fnv1a(f"{checks['salt']}:{trial.page_id}:{choice}") in checks["failed"]
            failing = trial.kind == "attention" and not right(choice, str(trial.expected))
            assert told == failing
    assert (
        make_session_data(study, 2)["settings"]["checks"] is None
    )  # the server itself reads answers


def test_fnv1a_matches_the_published_values() -> None:
    # Test vectors of the reference implementation, test_fnv.c.
    assert [fnv1a(text) for text in ("", "a", "foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]


def test_consent_boxes_have_their_own_names(study: Study) -> None:
    path = study.folder / "study.toml"
    box = 'file = "consent.md"\n[[consent.boxes]]\nname = "adult"\ntext = "I am 18."\n'
    path.write_text(path.read_text("utf-8").replace('file = "consent.md"\n', box, 1), "utf-8")
    study = read_study(study.folder)
    shown = make_session_data(study, 1)["consent"]["boxes"]
    assert shown == [{"name": "adult", "text": "I am 18.", "required": True}]
    twice = '[[questions]]\nname = "adult"\nprompt = "Are you?"\n'
    with pytest.raises(InputError, match="two questions have the name 'adult'"):
        add(study, twice)


def test_study_is_created_from_an_existing_sentence_table(tmp_path: Path) -> None:
    study = lay_out(tmp_path, "rating", RATED)
    again = create_study(tmp_path / "b", study.folder / "trials.csv", presentation="rating")
    assert again.design.trials == study.design.trials
    shutil.rmtree(again.folder)
