"""Test running studies: extension, backup and deletion of participants.

Tests `contstim.experiment.commands.data` and `contstim.experiment.commands.replacement`.
"""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest
from client_messages import answers_to, event, play, session_request
from studies import RECRUITER, add, make_trials

from contstim.cli import main
from contstim.errors import InputError
from contstim.experiment.importing import import_logs
from contstim.experiment.maintenance import (
    delete_participant,
    extend_study,
    release_sessions,
)
from contstim.experiment.messages import RequestError
from contstim.experiment.schema import DATA_FILE, backup_data, make_session_code
from contstim.experiment.store import Store
from contstim.experiment.study import Study, read_study
from contstim.experiment.study_data import read_study_data


def sentences_by_assignment(study: Study) -> dict[int, list[tuple[str, str, str]]]:
    return {
        assignment: [(t.id, *t.shown.values()) for t in own]
        for assignment, own in study.design.trials.items()
    }


def test_extension_does_not_disturb_open_sessions(study: Study, tmp_path: Path) -> None:
    before = sentences_by_assignment(study)
    make_trials(participants=3).to_csv(tmp_path / "more.csv", index=False)
    with Store(study) as store:
        token, bundle, _ = store.open(session_request(study, "A")).result()
        for name in "BCD":
            store.open(session_request(study, name)).result()
        with pytest.raises(RequestError, match="no place"):
            store.open(session_request(study, "E")).result()
        assert extend_study(study, tmp_path / "more.csv") == [5, 6]
        groups = [store.open(session_request(study, name)).result()[1]["group"] for name in "EF"]
        assert groups == [1, 2]
        store.add_answers(token, answers_to(bundle["trials"])).result()
        assert store.finish(token).result()["outcome"] == "complete"
        assert store.summary().result()["assignments"] == 6
    after = read_study(study.folder)
    assert {
        assignment: after_
        for assignment, after_ in sentences_by_assignment(after).items()
        if assignment in before
    } == before
    wanted = make_trials(participants=3)
    new = wanted[wanted["participant"].isin([3, 6])]
    shown = [
        trial.row["sentence_1"]
        for assignment in (5, 6)
        for trial in after.design.trials[assignment]
    ]
    assert shown == new["sentence_1"].tolist()
    collected = read_study_data(after)
    assert len(collected.choices) == 6
    with pytest.raises(InputError, match="already has all assignments of"):
        extend_study(after, tmp_path / "more.csv")


def test_other_trials_become_new_groups_and_items(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wave = make_trials()
    for name in ("sentence_1", "sentence_2"):
        wave[name] = wave[name].str.replace("Number", "Figure").str.replace("old men", "young men")
    wave.to_csv(tmp_path / "wave.csv", index=False)
    play_one = ["experiment", "extend", str(study.folder), "--trials", str(tmp_path / "wave.csv")]
    with Store(study) as store:
        play(store, "A")
        assert main(play_one) == 0
        assert capsys.readouterr().out == "4 assignments added: 5 to 8\n"
        for name in "BCDEFGH":
            play(store, name)
    after = read_study(study.folder)
    assert dict(after.design.groups) == {1: 1, 2: 1, 3: 2, 4: 2, 5: 3, 6: 3, 7: 4, 8: 4}
    own = {t.id for assignment in (1, 3) for t in after.design.trials[assignment]}
    assert own.isdisjoint(t.id for t in after.design.trials[5])
    choices = read_study_data(after).choices
    assert choices["group"].value_counts().tolist() == [12] * 4


def test_table_with_other_columns_is_rejected(study: Study, tmp_path: Path) -> None:
    before = (study.folder / "trials.csv").read_bytes()
    table = make_trials(participants=3)
    table.assign(mine=1).to_csv(tmp_path / "more.csv", index=False)
    with pytest.raises(
        InputError, match=r"have different columns \(mine\); give both the same columns$"
    ):
        extend_study(study, tmp_path / "more.csv")
    assert (study.folder / "trials.csv").read_bytes() == before


def test_backup_of_a_running_study_is_one_complete_file(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "backups" / "copy.sqlite3"
    plain = tmp_path / "plain.sqlite3"
    with Store(study) as store:
        play(store, "A")
        token, bundle, _ = store.open(session_request(study, "B")).result()
        sent = answers_to(bundle["trials"])
        futures = [store.add_answers(token, [one]) for one in sent]
        assert main(["experiment", "backup", str(study.folder), "--out", str(copy)]) == 0
        for future in futures:
            future.result()
        backup_data(study, copy)  # a later one replaces it
        shutil.copy(store.path, plain)
    assert [path.name for path in copy.parent.iterdir()] == ["copy.sqlite3"]
    restored = read_study_data(study, copy).choices
    assert restored.to_csv() == read_study_data(study).choices.to_csv()
    assert len(restored) == 12
    # What people do otherwise: the answers are in the file beside.
    said = (
        f"{plain} is empty; the data of a running study are partly in its -wal file: "
        "copy them with `contstim experiment backup`"
    )
    for given in (None, study):
        with pytest.raises(InputError) as error:
            read_study_data(study, plain) if given is None else Store(study, plain)
        assert str(error.value) == said
    assert main(["experiment", "backup", str(study.folder), "--out", str(tmp_path / "x/y/z")]) == 0


def read_data_files(study: Study) -> bytes:
    return b"".join(path.read_bytes() for path in study.folder.glob(f"{DATA_FILE}*"))


def test_deleted_participant_frees_the_assignment(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = add(study, RECRUITER)
    forget = ["experiment", "forget", str(study.folder)]
    with Store(study) as store:
        kept = play(store, "KEPT-ID")
        gone = play(store, "SECRET-ID")
        store.add_events(
            store.open(session_request(study, "THIRD")).result()[0], [event()]
        ).result()
        assert gone.encode() in read_data_files(study)
        assert main([*forget, "--participant", "nobody", "--reason", "x"]) == 2
        assert "no session has the code or id 'nobody'; give the code" in capsys.readouterr().err
        code = make_session_code(gone)
        assert re.fullmatch("[0-9A-F]{8}", code)
        who = f"{code[:4]}-{code[4:].lower()}"
        assert main([*forget, "--participant", who, "--reason", "asked by mail"]) == 0
        assert f"{code} is deleted from the data" in capsys.readouterr().out
        left = read_data_files(study)
        assert gone.encode() not in left
        assert b"SECRET-ID" not in left
        # The server goes on, and the data are as append-only as before.
        assert store.summary().result()["free"] == 2
        play(store, "NEXT")
        with pytest.raises(sqlite3.IntegrityError, match="append only"):
            store._writer.submit(lambda c: c.execute("DELETE FROM events")).result()
    collected = read_study_data(study)
    assert kept in set(collected.sessions["session"])
    assert gone not in set(collected.sessions["session"])
    with closing(sqlite3.connect(study.folder / DATA_FILE)) as connection:
        found = connection.execute(
            "SELECT code, outcome, n_answers, reason FROM forgotten"
        ).fetchall()
    assert found == [(code, "complete", 6, "asked by mail")]
    # Files that were kept elsewhere do not bring the data back.
    line = {"session": gone, "assignment": 1, "group": 1, "digest": study.trials_digests[1]}
    (tmp_path / "log.jsonl").write_text(json.dumps({**line, "answers": []}) + "\n", "utf-8")
    notes = import_logs(study, [tmp_path / "log.jsonl"]).notes
    assert notes == (f"session {gone}: its data were deleted (asked by mail)",)
    assert len(read_study_data(study).sessions) == 3


def test_extension_works_without_item_numbers(study: Study, tmp_path: Path) -> None:
    numbers = ["stimulus", "item"]
    table = make_trials().drop(columns=numbers)
    table.to_csv(study.folder / "trials.csv", index=False)
    make_trials(participants=3).drop(columns=numbers).to_csv(tmp_path / "more.csv", index=False)
    before = sentences_by_assignment(read_study(study.folder))
    assert extend_study(read_study(study.folder), tmp_path / "more.csv") == [5, 6]
    after = sentences_by_assignment(read_study(study.folder))
    assert {assignment: after[assignment] for assignment in before} == before
    assert isinstance(pd.read_csv(study.folder / "trials.csv"), pd.DataFrame)


def test_extension_keeps_item_names(study: Study, tmp_path: Path) -> None:
    before, more = make_trials(), make_trials(participants=3)
    before["item"] = before["stimulus"] // 2
    before.to_csv(study.folder / "trials.csv", index=False)
    # The further table calls items otherwise.
    more["item"] = [f"n{number // 2}" for number in more["stimulus"]]
    more.to_csv(tmp_path / "more.csv", index=False)
    extend_study(read_study(study.folder), tmp_path / "more.csv")
    after = pd.read_csv(study.folder / "trials.csv")
    items = after.groupby(["sentence_1", "sentence_2"])["item"].nunique()
    assert (items == 1).all()
    assert after["item"].nunique() == before["item"].nunique()


def test_equal_names_of_different_items_are_kept_apart(study: Study, tmp_path: Path) -> None:
    before, wave = make_trials(), make_trials()
    before["item"] = before["stimulus"]
    before.to_csv(study.folder / "trials.csv", index=False)
    # What the wave calls 1 the study calls 3; all others are new, and one has no name.
    wave["item"] = wave["stimulus"].map({3: 1, 1: 2, 2: 3}).astype("Int64").fillna(wave["stimulus"])
    fresh = wave["stimulus"] != 3
    wave.loc[fresh, "sentence_1"] = "Also " + wave["sentence_1"]
    wave.loc[wave["stimulus"] == 5, "item"] = pd.NA
    wave.to_csv(tmp_path / "wave.csv", index=False)
    extend_study(read_study(study.folder), tmp_path / "wave.csv")
    after = pd.read_csv(study.folder / "trials.csv")
    pairs = after.drop_duplicates(["sentence_1", "sentence_2"])
    assert pairs["item"].isna().sum() == 1
    assert pairs["item"].dropna().is_unique
    known = before.drop_duplicates("stimulus").set_index("sentence_1")["item"]
    assert pairs.set_index("sentence_1")["item"].reindex(known.index).eq(known).all()


@pytest.mark.parametrize("place", ["session", "why"])
def test_reasons_with_surrogates_are_rejected(study: Study, place: str) -> None:
    with Store(study) as store:
        session = play(store, "A", n=1)
    given = {session: "asked"} if place == "why" else {"a\udcff": "asked"}
    given = dict.fromkeys(given, "why\udcff") if place == "why" else given
    with pytest.raises(InputError, match="is not valid text"):
        release_sessions(study, given)
    with pytest.raises(InputError, match="is not valid text"):
        delete_participant(study, session, "\udcff")
    assert read_study_data(study).sessions["released"].tolist() == [""]
