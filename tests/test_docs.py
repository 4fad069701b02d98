"""The commands and Python examples of the README and the guides run."""

import re
import shlex
from pathlib import Path

import pytest

import contstim
from contstim.cli import main
from contstim.models.registry import FAMILIES, bundled_models
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.synthesis import SynthesisReport

ROOT = Path(__file__).parents[1]


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text("utf-8"), flags=re.DOTALL)


def _commands(*names: str) -> list[str]:
    """Return the commands of pages, in their order, each once."""
    lines = [
        line
        for name in names
        for block in _blocks(ROOT / name, "sh")
        for line in block.splitlines()
        if line.startswith("contstim ")
    ]
    return list(dict.fromkeys(lines))


_PAGES = ("README.md", "docs/models.md")


def _takes_minutes(command: str) -> bool:
    """Return whether a command needs a model of another package, such as the default writer."""
    return "--strategy sample" in command


def test_documented_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [c for c in _commands(*_PAGES) if not _takes_minutes(c)]
    assert len(commands) >= 12
    for command in commands:
        # Six sentences write as twenty do.
        words, _, target = command.replace("--limit 20", "--limit 6").partition(" > ")
        assert main(shlex.split(words)[1:]) == 0, command
        out = capsys.readouterr().out
        if target:
            Path(target).write_text(out, "utf-8")
    for name in ("triplets.csv", "trials.csv", "pairs.csv", "results/report.html"):
        assert Path(name).stat().st_size > 0


def test_slow_documented_commands_have_valid_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They are not run, but their plans are valid and their models exist.
    plans: list[StudyPlan] = []
    monkeypatch.chdir(tmp_path)

    def write(plan: StudyPlan, *_: object, **__: object) -> SynthesisReport:
        plans.append(plan)
        return SynthesisReport(is_up_to_date=True, notes={"rows": 1})

    monkeypatch.setattr("contstim.cli.synthesis_study.write_synthesis", write)
    commands = [c for c in _commands(*_PAGES) if _takes_minutes(c)]
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
    assert len(commands) == len(plans) == 1
    named = {spec for c in commands for spec in re.findall(r"contstim:([\w-]+)", c)}
    assert named == {"bigram", "trigram"}
    assert named <= set(bundled_models())


@pytest.mark.parametrize("name", ["README.md", "docs/problems.md", "docs/adaptive.md"])
def test_documented_python_examples_run(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("contstim.models.registry.FAMILIES", dict(FAMILIES))
    blocks = _blocks(ROOT / name, "python")
    assert blocks
    for block in blocks:
        exec(compile(block, name, "exec"), {})


def test_experiment_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its commands and its Python, in their order."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "experiment.md").read_text("utf-8")
    for name, table in re.findall(r"```csv (\S+)\n(.*?)```", text, flags=re.DOTALL):
        Path(name).write_text(table, "utf-8")
    for language, block in re.findall(r"```(sh|python)\n(.*?)```", text, flags=re.DOTALL):
        if language == "python":
            exec(compile(block, "experiment.md", "exec"), {})
            continue
        for command in block.splitlines():
            assert main(shlex.split(command)[1:]) == 0, command
    assert "complete" in capsys.readouterr().out
    for name in ("collected/choices.csv", "replace.csv"):
        assert Path(name).stat().st_size > 0


def test_results_page_documents_every_column() -> None:
    choices = contstim.datasets.simulated_choices()
    choices = choices[choices["group"].isin(choices["group"].unique()[:2])]
    models = ["contstim:bigram", "contstim:trigram"]
    evaluation = contstim.evaluate(choices, models)
    tables = evaluation.tables()
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert set(re.findall(r"\*\*`(\w+)\.csv`\*\*", page)) == set(tables)
    named = {name.replace(":MODEL", "") for name in re.findall(r"`([\w:]+)`", page)}
    # The design's own columns, and what any table may be about.
    named |= {"sentence", "sentence_1", "sentence_2", "condition", "participant", "group"}
    named |= {"analysis", "feature", "model", "kind_1", "kind_2", "t"}
    for name, table in tables.items():
        columns = {str(column).split(":")[0] for column in table} - {"contstim"}
        assert columns <= named, f"{name}: {columns - named}"


def test_code_guide_and_rulebook_name_existing_files() -> None:
    text = (ROOT / "docs" / "how-it-works.md").read_text("utf-8")
    places = re.findall(r"`(contstim/[\w/.]+\.py)(?::\s+([\w.]+))?`", text)
    assert len(places) > 20
    for path, name in places:
        source = (ROOT / path).read_text("utf-8")
        for part in filter(None, name.split(".")):
            assert re.search(rf"(def|class) {part}\b|^{part}\b", source, flags=re.MULTILINE), name
    rulebook = (ROOT / "docs" / "rulebook.md").read_text("utf-8")
    for path in re.findall(r"`((?:contstim|tests|docs)/[\w/.-]+\.\w+)`", rulebook):
        assert (ROOT / path).is_file(), path
