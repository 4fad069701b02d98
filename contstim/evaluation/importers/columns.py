"""Which columns of somebody's table hold what the choices table needs.

They are found by their names, in several languages, and in a table of one's own by their cells.
What is ambiguous is asked for, all of it in one message.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

import pandas as pd

from contstim.errors import InputError, near_matches, require_known
from contstim.tables import require_columns

# Names by which columns go, without case, accents, spaces and marks; the first one there is taken.
_NAMES: dict[str, tuple[str, ...]] = {
    "participant": (
        *("participant", "participantid", "participantprivateid", "subject", "subjectid", "subj"),
        *("prolificpid", "workerid", "responseid", "md5hashofparticipantsipaddress"),
        *("versuchsperson", "vp", "vpn", "vpnr", "vpcode", "vpnummer", "proband", "probandin"),
        *("teilnehmer", "teilnehmerin", "teilnehmernummer", "person", "personnummer"),
        *("sujet", "sujeto", "participante", "soggetto", "partecipante", "proefpersoon"),
        *("deelnemer", "id"),
    ),
    "group": ("group", "designgroup", "list", "counterbalance"),
    "item": ("item", "itemid", "itemnumber"),
    "trial": (
        *("trial", "trialid", "trialnumber", "ordernumberofitem", "trialindex", "trialorder"),
        *("order", "durchgang", "reihenfolge", "ordre", "orden", "ordine", "volgorde"),
    ),
    "condition": (
        *("condition", "trialcondition", "bedingung", "condicion", "condizione", "conditie"),
    ),
    "model_1": ("model1",),
    "model_2": ("model2",),
    "sentence_1": (
        *("sentence1", "sentencea", "satz1", "satza", "phrase1", "phrasea", "oracion1", "oraciona"),
        *("frase1", "frasea", "zin1", "zina"),
    ),
    "sentence_2": (
        *("sentence2", "sentenceb", "satz2", "satzb", "phrase2", "phraseb", "oracion2", "oracionb"),
        *("frase2", "fraseb", "zin2", "zinb"),
    ),
    "left": (
        *("left", "sentenceleft", "leftsentence", "links", "satzlinks", "linkersatz", "gauche"),
        *("phrasegauche", "izquierda", "sinistra"),
    ),
    "right": (
        *("right", "sentenceright", "rightsentence", "rechts", "satzrechts", "rechtersatz"),
        *("droite", "phrasedroite", "derecha", "destra"),
    ),
    "side": (
        *("side1", "sidea", "side", "leftis", "swapped", "flipped", "seite", "vertauscht", "cote"),
        *("lado", "lato"),
    ),
    "rating": (
        *("rating", "bewertung", "urteil", "einschatzung", "jugement", "juicio", "giudizio"),
        "oordeel",
    ),
    "response": (
        *("response", "answer", "choice", "value", "antwort", "wahl", "auswahl", "reponse"),
        *("choix", "respuesta", "eleccion", "risposta", "scelta", "antwoord", "keuze"),
    ),
    "rt_ms": (
        *("rtms", "rt", "reactiontime", "reaktionszeitms", "reaktionszeit", "antwortzeitms"),
    ),
    "rt_s": ("rts", "reaktionszeits", "antwortzeits"),
    "n_choices": ("nchoices",),
    # Of other programs' columns of these names nothing is known.
    **dict.fromkeys(("expected", "scale_low", "scale_high"), ()),
}
#: What would be misread under these names; other columns are kept.
RESERVED = {*_NAMES, "side_1", "kind_1", "kind_2"}


def plain(name: object) -> str:
    """Return a name of a column in small letters, without accents, spaces and marks.

    Examples
    --------
    >>> plain("Einschätzung (1-6)")
    'einschatzung16'
    """
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFKD", str(name)).casefold())


def theirs_for(ours: str, present: Sequence[str]) -> str:
    """Return which of the columns of a file may be one of ours, or nothing."""
    names = {**_NAMES, "rating": (*_NAMES["rating"], *_NAMES["response"])}[ours]
    by_name = {plain(column): column for column in reversed(present)}
    return next((by_name[name] for name in names if name in by_name), "")


def taken_for(name: object) -> str:
    """Return for which of our columns one of this name would be taken; nothing if for none."""
    by_name = {theirs: ours for ours, names in reversed(_NAMES.items()) for theirs in names}
    return by_name.get(plain(name)) or (str(name) if str(name) in RESERVED else "")


def find_columns(
    data: pd.DataFrame, given: Mapping[str, str], kind: str, by_cells: bool
) -> tuple[dict[str, str], list[str]]:
    """Find the columns of a table of choices.

    Parameters
    ----------
    data
        The table.
    given
        Those that are named already: ours, theirs.
    kind
        What the table is, for messages.
    by_cells
        Whether the table is of no known program, so that cells tell what names do not.

    Returns
    -------
    taken
        The columns that are used: ours, theirs.
    notes
        A sentence on each choice that was made by cells.

    Raises
    ------
    InputError
        If a named column is absent, or the columns do not tell the two sentences, the participants
        or the answers; the message names the option.
    """
    for ours in given:
        require_known("column", ours, _NAMES)
    require_columns(data, given.values(), "the file")
    taken = dict(given)
    by_name = {plain(c): str(c) for c in reversed(data.columns) if str(c) not in given.values()}
    for ours, names in _NAMES.items():
        present = [by_name[name] for name in names if name in by_name]
        if ours == "participant" and by_cells:  # numbers of rows are nobody's
            present = [c for c in present if len(data) < 2 or data[c].duplicated().any()]
        if ours in given or not present:
            continue
        if ours == "side" and len(present) > 1:
            raise InputError(
                f"the file has both {present[0]!r} and {present[1]!r}; say which tells where "
                "sentence 1 was: --side COLUMN"
            )
        taken[ours] = present[0]
    notes: list[str] = []
    asked: list[str] = []
    for ours_of_it, there, look in (
        (("sentence_1", "sentence_2"), _sentences(taken) is not None, _pairs_of_texts),
        (("participant",), "participant" in taken, _people),
        (("response",), bool({"rating", "response"} & {*taken}), _answers),
    ):
        if there:
            continue
        # Sentences tell who the participants are, and these what an answer is.
        possible = look(data, taken) if by_cells and not asked else []
        if len(possible) != 1:
            asked += ours_of_it
            continue
        taken |= dict(zip(ours_of_it, possible[0], strict=True))
        many = len(ours_of_it) > 1
        notes.append(
            f"{' and '.join(map(repr, possible[0]))} {'were' if many else 'was'} taken for "
            f"{' and '.join(ours_of_it)} by {'their' if many else 'its'} cells; if that is wrong: "
            f"{_option(ours_of_it)}."
        )
    if asked:
        single = [column for column in _left_over(data, taken) if _holds_sentences(data[column])]
        if by_cells and "sentence_1" in asked and len(single) == 1:
            raise InputError(
                f"the {kind} has one sentence in a row, in {single[0]!r}, and a choice is between "
                "two; for ratings of single sentences there is RatingBenchmark in "
                "contstim.benchmarks.ratings"
            )
        raise InputError(
            f"the {kind} does not show which of its columns hold {' and '.join(asked)}; name them, "
            f"{_option(asked)}; {near_matches('', [str(c) for c in data.columns], 'it has')}"
        )
    return taken, notes


def _option(columns: Sequence[str]) -> str:
    return "--column " + ",".join(f"{ours}=THEIRS" for ours in columns)


def _sentences(taken: Mapping[str, str]) -> list[str] | None:
    """Return the two columns of sentences, None where there are not two."""
    for both in (("sentence_1", "sentence_2"), ("left", "right")):
        if {*both} <= {*taken}:
            return [taken[ours] for ours in both]
    return None


def _left_over(data: pd.DataFrame, taken: Mapping[str, str]) -> list[str]:
    """Return the columns that are still free and may be used, as lists in JSON may not."""
    free = [str(column) for column in data if str(column) not in taken.values()]
    return [column for column in free if not data[column].map(type).isin((list, dict)).any()]


def _pairs_of_texts(data: pd.DataFrame, taken: Mapping[str, str]) -> list[list[str]]:
    """Return the columns of sentences, if they are two, and a third at most repeats one of them."""
    texts = [column for column in _left_over(data, taken) if _holds_sentences(data[column])]
    if len(texts) == 3:
        texts = [c for c in texts if not _repeats(data, c, [o for o in texts if o != c])]
    if len({name[:-1] for name in texts}) == 1:  # numbered, wherever they stand
        texts = sorted(texts)
    return [texts] if len(texts) == 2 else []


def _holds_sentences(cells: pd.Series) -> bool:
    """Return whether cells are different texts, of three words and more on the median."""
    texts = cells.dropna().astype("str")
    words = texts.drop_duplicates().map(lambda text: len(text.split()))
    return len(words) > 1 and len(texts) > len(cells) / 2 and words.median() >= 3


def _repeats(data: pd.DataFrame, column: str, both: Sequence[str]) -> bool:
    """Return whether each cell of a column, where filled, is that of one of two others."""
    texts = data[[column, *both]].dropna(subset=[column]).astype("str")
    texts = texts.apply(lambda cells: cells.str.strip())
    return bool(texts[both].eq(texts[column], axis=0).any(axis=1).all())


def pair_of(both: pd.DataFrame) -> pd.Series:
    """Return the pair of each row of two columns of sentences, in whatever order these are."""
    one, two = (both[column].astype("str").str.strip() for column in both)
    return one.where(one < two, two) + "\n" + two.where(one < two, one)


def differing(table: pd.DataFrame, people: pd.Series, pair: pd.Series) -> list[str]:
    """Return the columns of which neither who answers nor the pair alone tells the value."""
    keys = people.to_numpy(), pair.to_numpy()
    return [
        str(column)
        for column in table
        if all(table[column].groupby(key).nunique().max() > 1 for key in keys)
    ]


def _trials(data: pd.DataFrame, taken: Mapping[str, str]) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows with two sentences, and their pairs."""
    both = _sentences(taken) or []
    rows = data[data[both].notna().all(axis=1)]
    return rows, pair_of(rows[both])


def _people(data: pd.DataFrame, taken: Mapping[str, str]) -> list[list[str]]:
    """Return the columns whose values recur, but not with one pair, one of those that agree."""
    rows, pair = _trials(data, taken)
    columns: dict[tuple[int, ...], list[str]] = {}
    for column in _left_over(data, taken):
        codes, values = pd.factorize(rows[column])
        twice = pd.DataFrame({"who": codes, "pair": pair.to_numpy()}).duplicated().any()
        if 2 <= len(values) <= len(rows) / 2 and -1 not in codes and not twice:
            columns.setdefault(tuple(codes), [column])
    return list(columns.values())


def _answers(data: pd.DataFrame, taken: Mapping[str, str]) -> list[list[str]]:
    """Return the columns of the sentence chosen, or else of what differs as answers do."""
    rows, pair = _trials(data, taken)
    free = [column for column in _left_over(data, taken) if rows[column].notna().any()]
    chosen = [column for column in free if _repeats(rows, column, _sentences(taken) or [])]
    answers = chosen or differing(rows[free], rows[taken["participant"]], pair)
    return [[column] for column in answers]
