"""`contstim datasets`: the list, a fetch from a folder, and errors in one line."""

from contstim.benchmarks.datasets import DATA_SETS
from contstim.cli import main


def test_the_list_says_what_they_are_and_under_which_licence(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path))
    assert main(["datasets", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in DATA_SETS)
    assert "licence: MIT" in shown


def test_a_folder_without_the_files(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    assert main(["datasets", "fetch", "golan2023", "--from", str(tmp_path / "empty")]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"contstim: {tmp_path / 'empty'} has no file with the content of behav")
    assert main(["datasets", "fetch", "golan"]) == 2
    assert "unknown data set 'golan'; did you mean 'golan2023'" in capsys.readouterr().err
