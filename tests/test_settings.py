"""Parsing and validation of settings."""

import pickle
from collections.abc import Callable
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from contstim.errors import InputError, UnknownNameError
from contstim.evaluation.options import EvaluationOptions
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.settings import (
    PositiveInt,
    TupleFromList,
    field_bounds,
    parse_settings,
    read_toml,
    settings,
    validate_choice,
    validate_pattern,
)
from contstim.synthesis.edit import Edit
from contstim.synthesis.writer import SamplingOptions


@settings
class Codes:
    """Settings within settings."""

    complete: str | None = None


@settings
class Options:
    """Settings with a field of each kind."""

    name: Annotated[str, validate_pattern("[a-z]+", "use letters")]
    n: PositiveInt = 3
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    flag: bool = False
    numbers: TupleFromList[int] = ()
    side: Annotated[str, validate_choice(("left", "right"))] = "left"
    kind: Annotated[str, validate_choice(("one", "two"), "kind")] = "one"
    codes: Codes = field(default_factory=Codes)

    def __post_init__(self) -> None:
        if self.n > 3 and not self.numbers:
            raise InputError(f"n is {self.n}, but there are no numbers")


def test_parse_settings_converts_valid_tables() -> None:
    table = {"name": "a", "share": 1, "numbers": [2, 1], "codes": {"complete": "x"}}
    options = parse_settings(Options, table, "options")
    assert options == Options("a", share=1.0, numbers=(2, 1), codes=Codes("x"))
    assert isinstance(options.share, float)
    assert asdict(options)["codes"] == {"complete": "x"}
    assert pickle.loads(pickle.dumps(options)) == options
    assert hash(replace(options, n=2)) != hash(options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Options("1"), "name is '1'; use letters"),
        (lambda: Options(name=1), "name is 1; give text"),
        (lambda: Options(), "name is missing; give text"),
        (lambda: Options("a", n=0), "n is 0; give at least 1"),
        (lambda: Options("a", codes={}), "codes is {}; give an instance of Codes"),
        (lambda: Options("a", n="2"), "n is '2'; give a whole number"),
        (lambda: Options("a", n=True), "n is True; give a whole number"),
        (lambda: Options("a", n=2.5), "n is 2.5; give a whole number"),
        (lambda: Options("a", share=float("nan")), "share is nan; give at most 1"),
        (lambda: Options("a", share=2.0), "share is 2.0; give at most 1"),
        (lambda: Options("a", flag=1), "flag is 1; give true or false"),
        (lambda: Options("a", numbers="12"), "numbers is '12'; give a list"),
        (lambda: Options("a", numbers=[1, "x"]), "numbers[1] is 'x'; give a whole number"),
        (lambda: Options("a", nam=1), "unknown key nam; did you mean 'name'?"),
        (lambda: replace(Options("a"), n=4), "n is 4, but there are no numbers"),
        (lambda: parse_settings(Options, {"n": 1}, "run"), "run.name is missing; give text"),
        (lambda: parse_settings(Options, {"name": "a", "codes": 1}, "run"),
         "run.codes is 1; make it a table, [run.codes]"),
        (lambda: parse_settings(Options, {"name": "a", "codes": {"complete": 1}}, "run"),
         "run.codes.complete is 1; give text"),
        (lambda: parse_settings(Options, {"name": "a", "codes": {"compete": 1}}, "run"),
         "unknown key run.codes.compete; did you mean 'complete'?"),
    ],
)  # fmt: skip
def test_invalid_settings_are_rejected(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        make()
    assert str(error.value) == message


def test_unknown_choices_get_a_suggestion() -> None:
    with pytest.raises(UnknownNameError) as error:
        parse_settings(Options, {"name": "a", "side": "lef"}, "run")
    assert str(error.value) == "run.side is 'lef'; did you mean 'left'?"
    with pytest.raises(UnknownNameError) as error:
        Options("a", kind="x")
    assert str(error.value) == "unknown kind 'x'; choose one of 'one', 'two'"


def test_read_toml(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    with pytest.raises(InputError) as error:
        read_toml(path, "make one")
    assert str(error.value) == f"there is no file {path}; make one"
    path.write_text("a = 1", "utf-8")
    assert read_toml(path) == {"a": 1}
    path.write_text("a = 1", "utf-8-sig")  # as editors on Windows save it
    assert read_toml(path) == {"a": 1}
    path.write_text("a = " + "[" * 100_000, "utf-8")
    with pytest.raises(InputError, match="has too many levels of nested values"):
        read_toml(path)
    path.write_text("a = ", "utf-8")
    with pytest.raises(InputError, match="cannot read .*file.toml as TOML: "):
        read_toml(path)
    path.write_text('[a]\nb = [["c\\u0000"]]', "utf-8")
    with pytest.raises(InputError, match="has a NUL character"):
        read_toml(path)


def test_field_bounds() -> None:
    assert field_bounds(SynthesisOptions, "per_sentence") == (int, {"ge": 1, "le": 1000})
    assert field_bounds(Edit, "inputs") == (int, {"ge": 1})  # or None
    assert field_bounds(SamplingOptions, "writer") == (str, {})
    assert field_bounds(EvaluationOptions, "equivalence") == (float, {"gt": 0, "lt": 1})
