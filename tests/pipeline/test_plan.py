"""Study plans and their options, valid and invalid.

Tests `contstim.pipeline.synthesis_options`.
"""

from pathlib import Path

import pytest

from contstim.design.trials import LAYOUTS
from contstim.errors import InputError
from contstim.pipeline.stages.design import DesignOptions
from contstim.pipeline.stages.natural import NaturalOptions
from contstim.pipeline.study import read_study_plan
from contstim.pipeline.synthesis_options import SynthesisOptions

GOOD = """\
models = ["contstim:bigram", "contstim:trigram"]

[study]
name = "mine"
"""


def _read(tmp_path: Path, text: str) -> object:
    path = tmp_path / "e.toml"
    path.write_text(text, "utf-8")
    return read_study_plan(path)


def test_defaults_of_a_small_plan(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_text(GOOD + "[synthesis]\n[triplets]\n[design]\nlayout = 'golan2023'\n", "utf-8")
    found = read_study_plan(path)
    assert found.study.seed == 0
    assert found.out == tmp_path / "runs" / "mine"
    assert found.find_options(NaturalOptions) is None
    synthesis = found.get_options(SynthesisOptions)
    assert (synthesis.strategy, synthesis.allocation) == ("edit", "partitioned")
    assert found.get_options(DesignOptions).get_layout().catch == 12
    assert found.pairs() == [("contstim:bigram", "contstim:trigram")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "[synthesis]\nstratgy = 'x'\n", "unknown key synthesis.stratgy; did you mean 'str"),
        (GOOD + "[sythesis]\n", "unknown key sythesis; did you mean 'synthesis'"),
        (GOOD + "seed = '1'\n", "study.seed is '1'; give a whole number"),
        (GOOD + "seed = true\n", "study.seed is True; give a whole number"),
        (GOOD + "seed = -1\n", "study.seed is -1; give at least 0"),
        (GOOD + "[synthesis]\nstrategy = 'edits'\n", "did you mean 'edit'"),
        (
            GOOD + "[synthesis]\nstrategy = 'beam?inputs=3'\n",
            "inputs=3 is an option of the strategy 'edit', not of 'beam'",
        ),
        (GOOD + "[synthesis]\nstrategy = 'edit?inputs=0'\n", "inputs is 0; give at least 1"),
        (
            GOOD + "[synthesis]\nstrategy = 'beam'\nedits = 'max=2'\n",
            "the strategy 'beam' writes whole sentences and cannot limit edits (max=2)",
        ),
        (
            GOOD + "[synthesis]\nper_sentence = 1001\n",
            "synthesis.per_sentence is 1001; give at most 1000",
        ),
        (
            GOOD + "[synthesis]\n[triplets]\nper_pair = 1000000\n",
            "triplets.per_pair is 1000000; give at most 100000",
        ),
        (GOOD + "[natural]\naccept_from = 2.0\n", "natural.accept_from is 2.0; give at most 1"),
        (GOOD + "[triplets]\n", "add [synthesis]"),
        (
            GOOD + "[synthesis]\n[triplets]\nper_pair = 5\nstrata = 10\n",
            "not a multiple of strata, 10",
        ),
        (GOOD + "[design]\n", "add [natural], [set] or [triplets]"),
        (GOOD + "[natural]\n[design]\nlayout='golan2023'\ngroups=2\n", "design.groups"),
        (GOOD + "[natural]\n[design]\ngroups=0\n", "groups is 0"),
        (GOOD + "[natural]\nconstraints = ['balance:words']\n", "form balance:COLUMN:TOLERANCE"),
        (
            GOOD + "[set]\ncriterion = 'bf'\n",
            "set.criterion is 'bf'; choose one of 'log-bf', 'separation'",
        ),
        (
            GOOD + "[set]\n[set.response_model]\nlapse = 2.0\n",
            "set.response_model.lapse is 2.0; give at most 1",
        ),
        (GOOD + "[set]\nsynthetic = true\n", "set.synthetic needs triplets; add [synthesis]"),
        (GOOD + "[natural]\nper_pair = 2.5\n", "natural.per_pair is 2.5; give a whole number"),
        (GOOD + "[natural]\n[design]\nconditions = 'x'\n", "design.conditions is 'x'; give a list"),
        (GOOD + "[sentences]\nwords = 'long'\n", "'long' is not a length"),
        ('models = ["a:b"]\n[study]\nname="x"\n', "models lists 1 model(s)"),
        ('models = ["a:b", "a:b"]\n[study]\nname="x"\n', "models lists 'a:b' twice"),
        ('[study]\nname="x"\n', "models is None; give a list"),
        ('models = ["a:b", "c:d"]\n', "[study] is missing"),
        ('models = ["a:b", "c:d"]\n[study]\nseed = 1\n', "study.name is missing; give text"),
        ('models = ["a:b", "c:d"]\n[study]\nname = "a/b"\n', "study.name is 'a/b'"),
        ('models = ["a:b", "c:d"]\nstudy = 1\n', "study is 1; make it a table, [study]"),
        ("models = [", "as TOML"),
    ],
)
def test_invalid_plans_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        _read(tmp_path, text)
    assert message in str(error.value)
    assert "e.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_missing_plan_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        read_study_plan(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for path in (Path(__file__).parents[2] / "experiments").glob("*/*.toml")
        if path.name != "pyproject.toml"
    ),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_plans_of_experiments_are_valid(path: Path) -> None:
    found = read_study_plan(path)
    assert found.study.name == f"{path.parent.name}-{path.stem}"
    if path.parent.name in LAYOUTS:
        assert found.get_options(DesignOptions).layout == path.parent.name
