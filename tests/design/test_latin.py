"""Test Latin squares: one condition per item, and balanced lists."""

import itertools

import pandas as pd
import pytest

import contstim
from contstim.errors import InputError

FACTORS = ["attractor", "number"]
LEVELS = list(itertools.product(("sg", "pl"), ("one", "many")))


def make_items(n: int = 8) -> pd.DataFrame:
    """Return items with pairs in 2 x 2 conditions in varying order, and fillers."""
    rows = []
    for k in range(n):
        versions = [
            {"item": f"i{k}", "attractor": a, "number": b, "sentence_1": f"{a} {b} {k} was."}
            for a, b in LEVELS
        ]
        rows += versions[k % 4 :] + versions[: k % 4]
        # Three fillers between items: counted among them they would shift every list alike.
        rows += [
            {"item": f"f{k}{j}", "condition": "filler", "sentence_1": f"Filler {k} {j} is."}
            for j in range(3)
        ]
    rows.append({"item": "c", "condition": "catch", "sentence_1": "This is a catch trial."})
    table = pd.DataFrame(rows).reindex(columns=["item", "condition", *FACTORS, "sentence_1"])
    return table.assign(sentence_2=table["sentence_1"] + " Not.", author=range(len(table)))


def reuse_pair(table: pd.DataFrame, row: int, other: int, *pair: str) -> pd.DataFrame:
    """Give two rows the same pair, with exchanged sentences in the second."""
    table["condition"] = table["condition"].fillna(table["attractor"] + "." + table["number"])
    names = ["sentence_1", "sentence_2"]
    table.loc[other, names[::-1]] = pair
    table.loc[row, names] = pair
    return table


def test_latin_square_notes_imbalance() -> None:
    notes = contstim.latin_square(make_items(6), 10, FACTORS).attrs["notes"]
    assert notes == [
        "6 items in 4 conditions: a participant sees some conditions once more than others; a "
        "multiple of 4 items would be balanced",
        "10 participants on 4 lists: some lists have one more; a multiple of 4 would be balanced",
    ]


def test_additional_participants_do_not_change_other_trials() -> None:
    few, many = (contstim.latin_square(make_items(), n, FACTORS) for n in (4, 8))
    pd.testing.assert_frame_equal(few, many.iloc[: len(few)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t,
            "item i0 has 4 versions without a condition; distinguish them by --factors attractor "
            "number",
        ),
        (
            lambda t: t.drop(columns=FACTORS),
            "item i0 has 4 versions without a condition; distinguish them by a column 'condition'",
        ),
        (
            lambda t: t.assign(condition=t["condition"].fillna(t["attractor"])),
            "item i0 has 2 versions of 'sg'; distinguish them by --factors attractor number",
        ),
        (
            lambda t: t.assign(condition=t["attractor"].str.cat(t["number"])).drop(1),
            "item i0 has no version of condition 'sgmany', which others have; give all items the "
            "same conditions, or fillers one version",
        ),
        (
            lambda t: reuse_pair(t, 0, 1, "The key is.", "Key the is."),
            "rows 1 and 2 of the table of items have the same two sentences, 'Key the is.' and "
            "'The key is.'; answers to them could not be distinguished, so make each row a "
            "different pair",
        ),
        (
            lambda t: reuse_pair(t, 0, 9, "The key is.", "Key the is."),
            "rows 1 and 10 of the table of items have the same two sentences, 'Key the is.' and "
            "'The key is.'; answers to them could not be distinguished, so make each row a "
            "different pair",
        ),
        (
            lambda t: reuse_pair(t, 3, 3, "The key is.", "The  key is. "),
            "row 4 of the table of items: both sentences are 'The key is.'",
        ),
        (
            lambda t: t.assign(group=1),
            "the items have a column 'group', which the design adds; rename it",
        ),
        (
            lambda t: t.head(0),
            "the table of items has no rows; give one for each version of an item",
        ),
        (
            lambda t: t.drop(columns="sentence_2"),
            "the table of items has no column 'sentence_2'; did you mean 'sentence_1'?",
        ),
    ],
)
def test_invalid_items_are_rejected(change, message) -> None:
    with pytest.raises(InputError) as error:
        contstim.latin_square(change(make_items()))
    assert str(error.value) == message


def test_invalid_participants_and_factors_are_rejected() -> None:
    with pytest.raises(InputError, match="^participants is 10001; give 1 to 10000$"):
        contstim.latin_square(make_items(), 10_001, FACTORS)
    with pytest.raises(InputError, match="^the table of items has no column 'atractor'; did you"):
        contstim.latin_square(make_items(), 4, ["atractor"])
