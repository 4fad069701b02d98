"""Test `models distill` and `models finetune`: output and error messages.

Tests `contstim.cli.models` and `contstim.training.commands`.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest
from tiny_transformers import save_checkpoint

from contstim.cli import main
from contstim.training import DISTILLATION_DEFAULTS, AdaptOptions, TrainingOptions, commands

WORDS = ["the dog", "the cat", "a man", "old dogs", "a woman"]
ENDS = ["ran.", "saw a cat.", "ran fast.", "saw the old man.", "bark."]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_checkpoint("bert", tmp_path_factory.mktemp("cli") / "bert")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{a} {b}\n" for a in WORDS for b in ENDS))
    return path


@pytest.fixture
def cola(tmp_path: Path) -> Path:
    for name in ("in_domain_train", "in_domain_dev", "out_of_domain_dev"):
        lines = [f"x\t{int('dog' in a)}\t\t{a} {b}\n" for a in WORDS for b in ENDS]
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    return tmp_path


def _fails(capsys: pytest.CaptureFixture[str], *argv: object) -> str:
    try:
        status = main([str(a) for a in argv])
    except SystemExit as error:
        status = error.code
    captured = capsys.readouterr()
    assert status == 2, captured
    assert "Traceback" not in captured.err
    message = captured.err.strip().splitlines()[-1]
    assert message.startswith("contstim")
    return message.partition(": ")[2]


def test_distilled_models_can_be_used(bert: Path, text: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "student"
    teacher = f"hf:{bert}?metric=pll"
    command = ["models", "distill", teacher, "--text", text, "--out", out, "--epochs", 1]
    command += ["--heldout", text, "--limit", 20]
    # All sentences are held out, so there is none for training.
    assert "0 training and 25 held-out sentences" in _fails(capsys, *command)
    held = tmp_path / "held.txt"
    held.write_text("the dog saw a man.\nthe man ran.\na cat saw the dog fast.\n")
    command[command.index("--heldout") + 1] = held
    assert main([str(c) for c in command]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"student:{out}: Pearson ")
    assert "on 3 sentences; trained on 20, 0 left out" in printed
    assert main(["models", "info", f"student:{out}"]) == 0
    assert f"# Student of `{teacher}`" in capsys.readouterr().out
    assert main(["score", "--model", f"student:{out}", str(held)]) == 0
    captured = capsys.readouterr()
    assert f"imitates {teacher}" in captured.err
    assert len(captured.out.splitlines()) == 4
    message = _fails(capsys, "score", "--per", "word", "--model", f"student:{out}", held)
    assert "has no scores per word" in message
    assert "exists; choose another folder, or remove it" in _fails(capsys, *command)


def test_finetuned_classifiers_can_be_used(bert: Path, cola: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "classifier"
    command = ["models", "finetune", bert, "--from", cola, "--out", out, "--restarts", 1]
    command += ["--layers", 1, "--epochs", 6, "--batch", 4, "--learning-rate", 0.01]
    assert main([str(c) for c in command]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("in_domain_dev: Matthews' correlation ")
    assert f"classifier:{out}: best restart-" in captured.out
    assert main(["models", "info", f"classifier:{out}"]) == 0
    printed = capsys.readouterr().out
    assert "not a probability of the sentence" in printed
    assert "| in_domain_dev | 25 | " in printed


def test_invalid_training_input_gives_one_line_errors(
    bert: Path, text: Path, cola: Path, tmp_path: Path, capsys
) -> None:
    out = tmp_path / "out"
    tune = ["models", "finetune", bert, "--from", cola, "--out", out]
    path = cola / "in_domain_dev.tsv"
    good = path.read_text()
    path.write_text(good + "x\tyes\t\tThe dog ran.\n")
    assert _fails(capsys, *tune) == (f"{path}, line 26: write 1 (acceptable) or 0, not 'yes'")
    path.write_text("The dog ran.\n")
    assert _fails(capsys, *tune).startswith(f"{path}, line 1 has 1 columns, not the four of CoLA")
    path.unlink()
    assert _fails(capsys, *tune) == f"there is no file {path}; check the path"
    path.write_text(good)
    for base, message in (
        ("contstim:trigram", "'contstim:trigram' has no encoder to start from; give a masked"),
        ("contstim:brt", "unknown bundled model 'brt'"),
        (str(tmp_path / "none"), "is not a folder; give the folder of a checkpoint"),
        (str(cola), "cannot load"),
    ):
        assert message in _fails(capsys, "models", "finetune", base, *tune[3:])
    assert "cannot train 5 layers" in _fails(capsys, *tune, "--layers", 5)
    assert "'-1' is not a finite number above 0" in _fails(capsys, *tune, "--learning-rate", -1)
    distill = ["models", "distill", "contstim:bigram", "--text", text, "--out", out]
    assert "'contstim:bigram' has no encoder to start from" in _fails(capsys, *distill)
    assert _fails(capsys, "score", "--model", f"student:{bert}", text).startswith(
        f"'{bert}' is not a folder of a student"
    )
    assert not out.exists()


@pytest.mark.parametrize(
    ("function", "options"),
    [(commands.train_network, TrainingOptions()), (commands.adapt, AdaptOptions())],
)
def test_commands_have_the_defaults_of_the_functions(
    function: Callable[..., None], options: object
) -> None:
    parameters = signature(function).parameters
    defaults = {name: parameters[name].default for name in {*parameters} & {*vars(options)}}
    assert len(defaults) >= 6
    assert defaults == {name: getattr(options, name) for name in defaults}


def test_students_have_one_default_batch_size() -> None:
    assert commands.FitParameters().batch == DISTILLATION_DEFAULTS.batch
