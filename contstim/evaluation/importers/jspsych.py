"""Data of a jsPsych experiment, as JSON or CSV, of one participant a file or of many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from contstim.errors import InputError
from contstim.evaluation.choices import Cleaning, RawChoices, refuse_rows, rescale
from contstim.files import json_value
from contstim.tables import numbered_lines, read_table

# Names that experiments give to what we need, the first one found being taken.
_NAMES = {
    "participant": ("participant", "participant_id", "subject", "subject_id", "PROLIFIC_PID"),
    "group": ("group", "counterbalance", "list"),
    "trial": ("trial", "trial_id", "trial_number", "trial_index"),
    "condition": ("condition", "trial_condition"),
    "sentence_1": ("sentence_1", "sentence1"),
    "sentence_2": ("sentence_2", "sentence2"),
    "rt_ms": ("rt_ms", "rt"),
}


#: What programs write for true and false, in lower case.
TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0", "0.0"), False),
}


def read_jspsych(
    source: str | Path | pd.DataFrame,
    repeated_trial: str = "keep_first",
    n_choices: int | None = None,
) -> RawChoices:
    """Read jsPsych data: a CSV, a JSON array of trials, JSON lines, or a folder of such files.

    A row is a trial of the experiment if it holds both sentences; instructions, consent and
    feedback rows are passed over and counted in a note. The rating is `rating` (zero-centred);
    or else `response`, the number of the button: 0 for the leftmost, which is sure of the
    sentence shown on the left. `swapped` or `flipped` says that sentence 2 was shown on the left,
    as true or false, 1 or 0, yes or no; where it is empty, it was not.

    Parameters
    ----------
    source
        A path, or a table already read.
    repeated_trial
        See `Cleaning`.
    n_choices
        The number of buttons, which jsPsych does not write down. A column `n_choices`, where
        filled, goes before it.

    Raises
    ------
    InputError
        If the file is not jsPsych data, no row holds two sentences, a response is missing or
        off its scale, the number of buttons is not given, or a side is neither true nor false.
    """
    raw = source if isinstance(source, pd.DataFrame) else read_trials(Path(source))
    raw = raw.reset_index(drop=True)
    columns = {}
    for name, candidates in _NAMES.items():
        present = [c for c in candidates if c in raw.columns]
        if present:
            columns[present[0]] = name
    for name in ("participant", "sentence_1", "sentence_2"):
        if name not in columns.values():
            raise InputError(
                f"the jsPsych data have no column for {name}; one of "
                + ", ".join(repr(n) for n in _NAMES[name])
                + " is needed"
            )
    data = raw.rename(columns=columns)
    shown = data["sentence_1"].notna() & data["sentence_2"].notna()
    if not shown.any():
        raise InputError("no row of the jsPsych data holds two sentences")
    data = data.loc[shown].copy()
    if "rating" not in data:
        data["rating"] = _ratings(data, n_choices)
    notes = []
    if int((~shown).sum()):
        notes.append(f"{int((~shown).sum())} rows without two sentences were passed over.")
    return RawChoices(data, Cleaning(repeated_trial=repeated_trial), notes=notes)


def _ratings(data: pd.DataFrame, n_choices: int | None) -> pd.Series:
    if "response" not in data:
        raise InputError("the jsPsych data have neither a column 'rating' nor 'response'")
    codes = pd.to_numeric(data["response"], errors="coerce")
    odd = "response {value!r} is not the number of a button ({rows})"
    refuse_rows(codes.isna(), odd, data["response"])
    buttons = _buttons(data, n_choices)
    ratings = pd.Series(0.0, index=data.index)
    for n in buttons.unique():
        rows = buttons == n
        off = f"response {{value:g}} is not one of {n:g} buttons ({{rows}})"
        refuse_rows(rows & ~codes.between(0, n - 1), off, codes)
        ratings[rows] = rescale(codes[rows], 0, n - 1)
    return ratings.where(~_turned(data), -ratings)


def _buttons(data: pd.DataFrame, n_choices: int | None) -> pd.Series:
    given = pd.Series(n_choices, index=data.index, dtype=object)
    if "n_choices" in data:
        given = data["n_choices"].astype(object).where(data["n_choices"].notna(), given)
    refuse_rows(
        given.isna(),
        "the jsPsych data do not say how many buttons there were ({rows}); add "
        "a column 'n_choices' or give the number: n_choices=2, on the command line --buttons 2",
    )
    numbers = pd.to_numeric(given, errors="coerce").astype(float)
    odd = ~((numbers >= 2) & (numbers % 1 == 0))  # the remainder of infinity is missing
    refuse_rows(odd, "n_choices {value!r} is not a number of buttons, at least 2 ({rows})", given)
    return numbers


def _turned(data: pd.DataFrame) -> pd.Series:
    """Return in which rows sentence 2 was shown on the left."""
    names = [name for name in ("swapped", "flipped") if name in data]
    if not names:
        return pd.Series(False, index=data.index)
    if len(names) == 2:
        raise InputError("the jsPsych data have both 'swapped' and 'flipped'; keep one of them")
    given = data[names[0]].astype(object)
    turned = given.map(lambda value: TRUTH.get(str(value).strip().lower()))
    odd = turned.isna() & given.notna()
    refuse_rows(odd, f"{names[0]} {{value!r}} is neither true nor false ({{rows}})", given)
    return turned.eq(True)


def read_trials(path: Path) -> pd.DataFrame:
    """Read a CSV, JSON or JSON lines of trials, or a folder of such files, as they are.

    Raises
    ------
    InputError
        If there is no such file, or it cannot be read.
    """
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in (".json", ".jsonl", ".csv"))
        if not files:
            raise InputError(f"the folder {str(path)!r} holds no .json, .jsonl or .csv file")
        return pd.concat([read_trials(p) for p in files], ignore_index=True)
    if path.suffix not in (".json", ".jsonl", ".txt"):
        return read_table(path, cells="guessed")
    return pd.DataFrame(list(_trials(path)))


def _trials(path: Path) -> Iterator[dict[str, object]]:
    lines = [line for _, line in numbered_lines(path)]
    try:
        blocks = [json_value("\n".join(lines))]
    except ValueError:
        try:
            blocks = [json_value(line) for line in lines if line.strip()]
        except ValueError as error:
            raise InputError(f"{str(path)!r} is not JSON: {error}") from error
    for block in blocks:
        entries = block.get("trials", [block]) if isinstance(block, dict) else block
        for entry in entries if isinstance(entries, list) else [entries]:
            inner = entry if isinstance(entry, list) else [entry]
            for trial in inner:
                if not isinstance(trial, dict):
                    raise InputError(f"{str(path)!r} holds {trial!r} where a trial should be")
                yield trial
