"""Names of columns in exports, and texts that mean true and false."""

from __future__ import annotations

import re
import unicodedata

#: Standard column names with the names of that column in exports, as returned by `normalise_name`.
#: The first name that an export contains is used.
NAMES: dict[str, tuple[str, ...]] = {
    "participant": (
        *("participant", "participantid", "participantprivateid", "subject", "subjectid"),
        *("prolificpid", "workerid", "responseid", "md5hashofparticipantsipaddress", "id"),
    ),
    "group": ("group", "designgroup", "list", "counterbalance"),
    "item": ("item", "itemid", "itemnumber"),
    "kind": ("kind", "trialkind"),
    "trial": ("trial", "trialnumber", "trialnr", "ordernumberofitem", "trialindex", "trialorder"),
    "condition": ("condition", "trialcondition"),
    "model_1": ("model1",),
    "model_2": ("model2",),
    "sentence_1": ("sentence1", "sentencea"),
    "sentence_2": ("sentence2", "sentenceb"),
    "left": ("left", "sentenceleft", "leftsentence"),
    "right": ("right", "sentenceright", "rightsentence"),
    "side": ("side1", "sidea", "side", "leftis", "swapped", "flipped"),
    "rating": ("rating",),
    "response": ("response", "answer", "choice", "value"),
    "expected": ("expected",),
    "rt_ms": ("rtms", "rt", "reactiontime"),
    "rt_s": ("rts",),
    "n_choices": ("nchoices",),
    "scale_low": ("scalelow",),
    "scale_high": ("scalehigh",),
}
#: Names that other columns of an export must not have in the choices table.
RESERVED = {*NAMES, "side_1", "kind_1", "kind_2"}
#: Booleans by their text in lower case.
TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def normalise_name(name: object) -> str:
    """Return a column name in lower case without accents, spaces and punctuation.

    The prefix "Spreadsheet: ", which Gorilla adds to columns of the uploaded table, is removed.

    Examples
    --------
    >>> normalise_name("Trial Number"), normalise_name("Spreadsheet: SideA")
    ('trialnumber', 'sidea')
    """
    # NFKD separates accents from letters; the pattern then removes all but letters and digits.
    text = unicodedata.normalize("NFKD", str(name).removeprefix("Spreadsheet: "))
    return re.sub(r"[\W_]", "", text.casefold())


def match_standard_name(name: object) -> str:
    """Return the standard column name that corresponds to a column of an export.

    For example, ``Participant ID`` corresponds to ``participant``. The result is an empty string if
    there is no corresponding standard column.
    """
    normalised = normalise_name(name)
    return next((standard for standard, names in NAMES.items() if normalised in names), "")
