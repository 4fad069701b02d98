"""The page on which a researcher reviews sentences, and the appendix for an ethics board."""

from __future__ import annotations

import json
import re
import secrets
import sys
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from math import isnan
from pathlib import Path
from threading import Lock
from typing import Any

import pandas as pd

from contstim.errors import ContstimError, InputError, OutputError
from contstim.files import digest, json_value
from contstim.report.page import Page
from contstim.selection.review import (
    Decision,
    counts_of,
    disagreements,
    kappa,
    read_decisions,
    sentences_of,
    settled,
    write_decisions,
)
from contstim.text.features import sentence_flags
from contstim.text.language import Language
from contstim.text.languages import language_of
from contstim.text.normalise import normalise_sentence
from contstim.text.words import offensive_source, offensive_words

_MOST_BYTES = 100_000  # of a message from the page
_MOST_ROWS = 3  # of the table, that the page shows of one sentence

#: What is to be judged, unless a review has a rule of its own.
REVIEW_RULE = """\
May people be shown this sentence in an experiment? Approve it as it stands, reject it, or write
what is to be shown in its place. Look for what would offend or distress, for living people and
private matters, and for slips that nobody meant. That it is odd is no fault: these are sentences on
which models disagree. A flag is a reason to look, no verdict.
"""

# What a sentence is in its row, by its column: the first of these whose names the row has.
_TWO = (
    "accepted by {model_1}, rejected by {model_2}",
    "accepted by {model_2}, rejected by {model_1}",
)
_PREFER = ("prefer_1", "prefer_2")  # models for a set of which a pair was chosen
_ROLES = {
    "natural": ("natural sentence",),
    "synthetic_1": (_TWO[0], "synthetic sentence 1"),
    "synthetic_2": (_TWO[1], "synthetic sentence 2"),
    "synthetic": ("accepted by {accept}, rejected by {reject}", "synthetic sentence"),
    "sentence_1": ("preferred by {prefer_1}", _TWO[0], "sentence 1"),
    "sentence_2": ("preferred by {prefer_2}", _TWO[1], "sentence 2"),
}


def standing(table: pd.DataFrame, scores: pd.DataFrame | None = None) -> list[list[dict[str, Any]]]:
    """Return the different rows of a table as a reviewer sees them, sentences side by side.

    Parameters
    ----------
    table
        Triplets, pairs or written sentences.
    scores
        Log-probabilities in nats, shape (S, M), the sentences as index, for those that the table
        does not give.

    Returns
    -------
    list
        Of each row its sentences, each with its ``role`` in the row and its ``scores`` by model.
    """
    roles = {name: templates for name, templates in _ROLES.items() if name in table}
    given = {} if scores is None else scores.to_dict("index")
    known_scores = {
        str(sentence): {str(m): float(value) for m, value in by_model.items() if not isnan(value)}
        for sentence, by_model in given.items()
    }
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.astype(object).where(table.notna(), "").to_dict("records"):
        names = {str(key): str(value) for key, value in row.items() if value != ""}
        prefer = {key: ", ".join(names[key].split()) for key in _PREFER if key in names}
        cells = []
        for column, templates in roles.items():
            if sentence := normalise_sentence(names.get(column, "")):
                by_model = dict(known_scores.get(sentence, {}))
                for k in (1, 2):
                    if {f"model_{k}", f"{column}_lp_{k}"} <= names.keys():
                        by_model[names[f"model_{k}"]] = float(names[f"{column}_lp_{k}"])
                role = next(
                    t.format_map(names | prefer) for t in templates if _fields(t) <= names.keys()
                )
                cells.append({"sentence": sentence, "role": role, "scores": by_model})
        rows.setdefault(json.dumps(cells), cells)
    return [cells for cells in rows.values() if cells]


def _fields(template: str) -> set[str]:
    return set(re.findall(r"{(\w+)}", template))


@dataclass(eq=False)
class Review:
    """The sentences that one reviewer judges, and the file of decisions.

    Attributes
    ----------
    table
        Triplets, pairs or written sentences.
    path
        The decisions of all reviewers; written after each.
    reviewer
        Who judges.
    rule
        What is to be judged, in words.
    scores
        See `standing`.
    """

    table: pd.DataFrame
    path: Path
    reviewer: str
    rule: str = REVIEW_RULE
    scores: pd.DataFrame | None = None
    _busy: Lock = field(default_factory=Lock, repr=False)

    def __post_init__(self) -> None:
        self.reviewer = " ".join(self.reviewer.split())
        if not self.reviewer:
            raise InputError("a review needs the reviewer's name or initials; give --reviewer")
        self.sentences = sentences_of(self.table)
        self.language = language_of(self.sentences)
        self.decisions = read_decisions(self.path) if self.path.exists() else []

    def content(self) -> dict[str, Any]:
        """Return what the page shows, as JSON values; the language is that of the sentences.

        ``digest`` is of what is judged by whom. ``rows`` are those of `standing`, and after them
        the rows in which other reviewers edited a sentence. ``stimuli`` is what is to be judged:
        the sentences, then the edited forms, each with its flags, the numbers of its rows and this
        reviewer's decision. What the others decided is not shown.
        """
        rows = standing(self.table, self.scores)
        for decision in self.decisions:
            if decision.reviewer != self.reviewer and decision.edited:
                rows += self._edited(decision, rows)
        where = defaultdict[str, list[int]](list)
        for number, cells in enumerate(rows):
            for sentence in dict.fromkeys(cell["sentence"] for cell in cells):
                where[sentence].append(number)
        decided = {d.sentence: asdict(d) for d in self.decisions if d.reviewer == self.reviewer}
        return {
            "reviewer": self.reviewer,
            "digest": digest("\n".join([self.reviewer, *where]))[:16],
            "rule": " ".join(self.rule.split()),
            "rows": rows,
            "language": self.language.code,
            "direction": self.language.direction,
            "stimuli": [
                {
                    "sentence": sentence,
                    "rows": where[sentence][:_MOST_ROWS],
                    "more": len(where[sentence][_MOST_ROWS:]),
                    "flags": sentence_flags(sentence, self.language),
                    "decision": decided.get(sentence),
                }
                for sentence in dict.fromkeys([*self.sentences, *where])
            ],
        }

    def _edited(
        self, decision: Decision, rows: Sequence[list[dict[str, Any]]]
    ) -> list[list[dict[str, Any]]]:
        """Return the first row of an edited sentence with the edited form in its place."""
        old, new = decision.sentence, decision.edited
        form = {"sentence": new, "role": f"edited form of: {old}", "scores": {}}
        for cells in rows:
            if any(cell["sentence"] == new for cell in cells):
                return []
        for cells in rows:
            if any(cell["sentence"] == old for cell in cells):
                return [[form if cell["sentence"] == old else cell for cell in cells]]
        return []

    def decide(self, decision: Decision) -> None:
        """Keep a decision in place of the reviewer's earlier one; it is on the disk on return.

        Raises
        ------
        InputError
            If the sentence is none of those under review.
        """
        with self._busy:
            sentences = {*self.sentences, *(d.edited for d in self.decisions)}
            if decision.sentence not in sentences:
                raise InputError(f"{decision.sentence!r} is not under review; load the page again")
            whose = (decision.sentence, decision.reviewer)
            others = [d for d in self.decisions if (d.sentence, d.reviewer) != whose]
            write_decisions(self.path, [*others, decision])
            self.decisions = [*others, decision]


def mailed_review(review: Review) -> str:
    """Return the page of a review as one file, for a reviewer who has no contstim.

    It asks no network and keeps decisions in the browser; its button gives the CSV that
    `write_decisions` writes of this reviewer's decisions.
    """
    # In JSON a "<" may be written as its code, which no text can then end the script by.
    content = json.dumps(review.content()).replace("<", "\\u003c")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
    text = _page().decode()
    for place, inside in (('<meta charset="utf-8">', f"\n{policy}"), (_CONTENT, content)):
        before, _, after = text.partition(place)
        text = before + place + inside + after
    return text


_CONTENT = '<script id="content" type="application/json">'


@cache
def _page() -> bytes:
    return (files("contstim.experiment") / "review.html").read_bytes()


@cache
def _policy() -> str:
    """Return what the page may do: run its own script, nothing else."""

    def own(element: bytes) -> str:
        (text,) = re.findall(rb"<%b>(.*?)</%b>" % (element, element), _page(), flags=re.S)
        return f"'sha256-{b64encode(sha256(text).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {own(b'script')}; style-src {own(b'style')}; "
        "base-uri 'none'; form-action 'none'"
    )


class _Handler(BaseHTTPRequestHandler):
    """Answers the page; only who knows the address is answered."""

    server: ReviewServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Give the page, or what it shows."""
        path, root = self.path.split("?")[0], self.server.root
        if path in (root, f"{root}/"):
            self._send(HTTPStatus.OK, _page(), "text/html; charset=utf-8")
        elif path == f"{root}/content":
            self._send(HTTPStatus.OK, self.server.review.content())
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is nothing at this address"})

    def do_POST(self) -> None:
        """Keep a decision."""
        review, length = self.server.review, self.headers.get("Content-Length", "")
        if self.path != f"{self.server.root}/decision" or not re.fullmatch("[0-9]{1,9}", length):
            self.close_connection = True
            self._send(HTTPStatus.NOT_FOUND, {"error": "there is nothing at this address"})
            return
        if int(length) > _MOST_BYTES:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"error": "the sentence is too long"})
            return
        try:
            values = json_value(self.rfile.read(int(length)))
            names = ("sentence", "decision", "edited", "reason")
            sentence, decision, edited, reason = (str(values.get(name, "")) for name in names)
            review.decide(Decision(sentence, review.reviewer, decision, edited, reason))
        except (ValueError, AttributeError, ContstimError) as error:
            # Errors of contstim are meant for people; others come of what is no page's message.
            ours = isinstance(error, ContstimError)
            why = str(error) if ours else "the message is no decision"
            self._send(HTTPStatus.BAD_REQUEST, {"error": why})
            return
        flags = sentence_flags(edited, review.language) if edited.strip() else []
        self._send(HTTPStatus.OK, {"flags": flags})

    def _send(
        self, status: HTTPStatus, body: bytes | dict[str, Any], kind: str = "application/json"
    ) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        policy = f"{_policy()}; connect-src 'self'; frame-ancestors 'none'"
        self.send_header("Content-Security-Policy", policy)
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each request."""


class ReviewServer(ThreadingHTTPServer):
    """Serves a review to the browser of this machine, at an address that holds a secret.

    Parameters
    ----------
    review
        What is reviewed.
    port
        0 takes any that is free.

    Raises
    ------
    OutputError
        If the port is taken.
    """

    daemon_threads = True

    def __init__(self, review: Review, port: int = 0) -> None:
        self.review = review
        self.root = f"/{secrets.token_urlsafe(16)}"
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise OutputError(
                f"cannot listen on port {port}: {error.strerror or error}; give another --port"
            ) from None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing where a browser went away before it had its answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_port}{self.root}/"


def appendix(
    table: pd.DataFrame,
    decisions: Sequence[Decision],
    *,
    reviewers: int = 1,
    warning: str = "",
    lists: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the appendix for an ethics board, a page that depends on its inputs alone.

    Parameters
    ----------
    table
        All stimuli that were considered.
    decisions, reviewers
        Of the reviewers, and how many must agree, as for `settled`.
    warning
        What participants are told before they begin.
    lists
        Further lists of words that were used: name and what for.
    """
    shown = settled(decisions, reviewers)
    sentences = sentences_of(table)
    decided = {sentence: shown.get(sentence) for sentence in sentences}
    language = language_of(sentences)
    counts = counts_of(decided)
    page = Page("Stimuli and how they were reviewed")
    page.heading("Summary")
    names = sorted({d.reviewer for d in decisions})
    page.bullets(
        [
            f"sentences considered: {len(sentences)}",
            f"shown as they are: {counts['approved']}; in an edited form: {counts['edited']}; "
            f"removed: {counts['left out']}",
            f"reviewers: {', '.join(names) or 'none'}; at least {reviewers} had to agree",
            *_kappas(decisions),
            f"digest of the stimuli: {digest(chr(10).join(sentences))[:16]}",
        ]
    )
    page.heading("What participants are told")
    page.paragraph(warning or "There is no content warning.")
    page.heading("Lists of words")
    page.bullets(
        [
            _offensive(language),
            "frequencies: wordfreq 3.1 (data CC BY-SA 4.0); words of a Zipf frequency below 3 are "
            "flagged",
            *(f"{name}: {use}" for name, use in lists),
        ]
    )
    for title, rows in _outcomes(decided, decisions, language).items():
        page.heading(title)
        page.table(rows)
    return str(page)


def _offensive(language: Language) -> str:
    """Return which list of offensive words sentences were compared with."""
    if language.offensive != "bundled":
        return f"offensive words of {language.name}: none looked for; {offensive_source(language)}"
    return (
        f"offensive words: cuss 2.2.0 (MIT) and better-profanity 0.7.0 (MIT), "
        f"{len(offensive_words())} words and phrases, matched as whole words; a word of any "
        "level is flagged below"
    )


def _outcomes(
    final_forms: Mapping[str, str | None], decisions: Sequence[Decision], language: Language
) -> dict[str, pd.DataFrame]:
    """Return, by their titles, the tables of the sentences that are shown, changed and removed."""
    judged = defaultdict[str, list[Decision]](list)
    for decision in decisions:
        judged[decision.sentence].append(decision)

    def why(sentence: str) -> str:
        against = (d for d in judged[sentence] if d.decision != "approve")
        reasons = "; ".join(sorted(f"{d.reviewer}: {d.decision}, {d.reason}" for d in against))
        if reasons or final_forms[sentence] is not None:
            return reasons
        n = len(judged[sentence])
        return f"approved by {n} only, or in another form" if n else "reviewed by nobody"

    final = dict.fromkeys(text for text in final_forms.values() if text is not None)
    shown = [(text, "; ".join(sentence_flags(text, language))) for text in final]
    changed = [(s, text, why(s)) for s, text in final_forms.items() if text not in (None, s)]
    removed = [(s, why(s)) for s, text in final_forms.items() if text is None]
    return {
        "Sentences that are shown": pd.DataFrame(shown, columns=["sentence", "flags"]),
        "Sentences that were changed": pd.DataFrame(
            changed, columns=["sentence", "shown instead", "why"]
        ),
        "Sentences that were removed": pd.DataFrame(removed, columns=["sentence", "why"]),
    }


def serve_review(server: ReviewServer, say: Callable[[str], None]) -> None:
    """Serve until interrupted; then say how far the review is."""
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    review = server.review
    for line in progress_lines(review.decisions, len(review.sentences), review.reviewer):
        say(line)


def progress_lines(
    decisions: Sequence[Decision], sentences: int, reviewer: str | None = None
) -> Iterator[str]:
    """Yield how far each reviewer is, or one of them, and how far each two agree."""
    for name in sorted({d.reviewer for d in decisions} if reviewer is None else {reviewer}):
        counts = Counter(d.decision for d in decisions if d.reviewer == name)
        yield (
            f"{name}: {counts['approve']} approved, {counts['edit']} edited, "
            f"{counts['reject']} rejected of {sentences} sentences"
        )
    yield from _kappas(decisions)


def joined_review(
    table: pd.DataFrame, decisions: Sequence[Decision], reviewers: int = 1
) -> Iterator[str]:
    """Yield lines on what reviewers decided together: how far they agree, and where they do not.

    Parameters
    ----------
    table
        What was reviewed.
    decisions, reviewers
        Of all reviewers, and how many must agree, as for `settled`.
    """
    sentences = sentences_of(table)
    yield from progress_lines(decisions, len(sentences))
    shown = settled(decisions, reviewers)
    counts = counts_of({sentence: shown.get(sentence) for sentence in sentences})
    yield "together: " + ", ".join(f"{n} {what}" for what, n in counts.items())
    for sentence, judged in disagreements(decisions).items():
        yield f"not agreed: {sentence}"
        for d in judged:
            why = "; ".join(text for text in (d.edited, d.reason) if text)
            yield f"  {d.reviewer}: {d.decision}{f' ({why})' if why else ''}"


def _kappas(decisions: Sequence[Decision]) -> Iterator[str]:
    for (one, two), (value, n) in kappa(decisions).items():
        found = "not defined" if isnan(value) else f"{value:.3f}"
        yield f"Cohen's kappa of {one} and {two}: {found} over {n} sentences"
