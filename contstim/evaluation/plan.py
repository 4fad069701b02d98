"""Analysis plans: what an evaluation is to do, fixed in a TOML file before the choices are seen."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from contstim.evaluation.options import EvaluationOptions
from contstim.settings import build, read_toml


def read_plan(path: str | Path) -> dict[str, Any]:
    """Read an analysis plan.

    Parameters
    ----------
    path
        A TOML file whose keys are fields of `EvaluationOptions`; ``[exclusions]`` is a table of
        those of `ExclusionRules`, and each ``[[analyses]]`` one of those of `Analysis`.

    Returns
    -------
    dict
        The options that the plan fixes.

    Raises
    ------
    InputError
        If the file cannot be read, or naming the key that is not right.
    """
    table = read_toml(Path(path))
    options = build(EvaluationOptions, table)
    return {name: getattr(options, name) for name in table}


def departures(options: EvaluationOptions, planned: EvaluationOptions) -> tuple[str, ...]:
    """Return a sentence for each option, or rule of exclusion, that is not as planned."""
    return tuple(_differences(options, planned, ""))


def _differences(done: Any, planned: Any, where: str) -> list[str]:
    found: list[str] = []
    for item in fields(done):
        name, now, then = (
            f"{where}{item.name}",
            getattr(done, item.name),
            getattr(planned, item.name),
        )
        if item.name == "exclusions":
            found += _differences(now, then, "exclusions.")
        elif now != then:
            found.append(f"{name} is {_said(now)}; the plan has {_said(then)}.")
    return found


def _said(value: object) -> str:
    if value is None or value == ():
        return "not set"
    if isinstance(value, tuple):
        return ", ".join(str(getattr(item, "name", item)) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
