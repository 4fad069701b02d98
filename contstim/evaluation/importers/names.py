"""Names of columns in exports of other programs, and what they write for true and false."""

from __future__ import annotations

import re
import unicodedata

#: Names of columns in exports, without case and marks; the first one that is there is used.
NAMES: dict[str, tuple[str, ...]] = {
    "participant": (
        *("participant", "participantid", "participantprivateid", "subject", "subjectid"),
        *("prolificpid", "workerid", "responseid", "md5hashofparticipantsipaddress", "id"),
    ),
    "group": ("group", "designgroup", "list", "counterbalance"),
    "item": ("item", "itemid", "itemnumber"),
    "kind": ("kind", "trialkind"),
    "trial": ("trial", "trialid", "trialnumber", "ordernumberofitem", "trialindex", "trialorder"),
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
#: Columns of the choices table that would be misread under these names in an export.
RESERVED = {*NAMES, "side_1", "kind_1", "kind_2"}
#: What programs write for true and false, in lower case.
TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}


def plain(name: object) -> str:
    """Return a name of a column in small letters, without accents, spaces and marks.

    Examples
    --------
    >>> plain("Trial Number"), plain("Spreadsheet: SideA")
    ('trialnumber', 'sidea')
    """
    text = unicodedata.normalize("NFKD", str(name).removeprefix("Spreadsheet: "))
    return re.sub(r"[\W_]", "", text.casefold())


def match_role(name: object) -> str:
    """Return the column of the choices table that an export's column is, by its name, or ''."""
    return next((ours for ours, names in NAMES.items() if plain(name) in names), "")
