"""The server of a review and its command, without a browser.

Tests `contstim.cli.review`.
"""

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from urllib.request import urlopen

import pandas as pd
import pytest

from contstim.cli import main
from contstim.errors import InputError, OutputError
from contstim.experiment.review import (
    Review,
    ReviewServer,
    appendix,
    mailed_review,
    standing,
)
from contstim.selection.review import Decision, read_decisions, write_decisions

TABLE = pd.DataFrame(
    {
        "model_1": ["m"], "model_2": ["n"],
        "natural": ["The dog ran."], "synthetic_1": ["The fire ran."], "synthetic_2": ["A apple."],
        "synthetic_1_lp_1": [-3.0], "synthetic_1_lp_2": [-8.5],
    }
)  # fmt: skip


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ReviewServer]:
    made = ReviewServer(Review(TABLE, tmp_path / "d.csv", " A  B "))
    thread = Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def ask(server: ReviewServer, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=240)
    try:
        sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, sent)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_stimuli_and_decisions(server: ReviewServer) -> None:
    status, body = ask(server, "GET", f"{server.root}/content")
    content = json.loads(body)
    assert (status, content["reviewer"]) == (200, "A B")
    (row,) = content["rows"]
    assert row == [
        {"sentence": "The dog ran.", "role": "natural sentence", "scores": {}},
        {
            "sentence": "The fire ran.",
            "role": "accepted by m, rejected by n",
            "scores": {"m": -3.0, "n": -8.5},
        },
        {"sentence": "A apple.", "role": "accepted by n, rejected by m", "scores": {}},
    ]
    assert [one["rows"] for one in content["stimuli"]] == [[0], [0], [0]]
    assert [one["flags"] for one in content["stimuli"]] == [
        [],
        ["offensive word: fire"],
        ["agreement: a apple ('an' before a vowel)"],
    ]
    edit = {"sentence": "A apple.", "decision": "edit", "edited": "An  apple.", "reason": "an"}
    assert ask(server, "POST", f"{server.root}/decision", edit) == (200, b'{"flags": []}')
    assert read_decisions(server.review.path) == [
        Decision("A apple.", "A B", "edit", "An apple.", "an")
    ]
    # A later decision takes the place of the earlier one.
    later = {"sentence": "A apple.", "decision": "reject", "reason": "odd"}
    assert ask(server, "POST", f"{server.root}/decision", later)[0] == 200
    assert [d.decision for d in read_decisions(server.review.path)] == ["reject"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"sentence": "A apple.", "decision": "reject"}, "A B gives no reason to reject"),
        ({"sentence": "Other.", "decision": "approve"}, "'Other.' is not under review; load"),
        (b"\xff", "the message is no decision"),
        (b"[1]", "the message is no decision"),
    ],
)
def test_what_is_no_decision(server: ReviewServer, body: object, message: str) -> None:
    status, said = ask(server, "POST", f"{server.root}/decision", body)
    assert status == 400
    assert json.loads(said)["error"].startswith(message)
    assert not server.review.path.exists()


def test_only_who_knows_the_address_is_answered(server: ReviewServer) -> None:
    for method, path in (("GET", "/"), ("GET", "/stimuli"), ("POST", "/decision")):
        assert ask(server, method, path, {} if method == "POST" else None)[0] == 404
    assert ask(server, "GET", f"{server.root}/other")[0] == 404
    assert ask(server, "POST", f"{server.root}/decision", b" " * 200_000)[0] == 413
    assert ask(server, "GET", f"{server.root}/")[1].startswith(b"<!DOCTYPE html>")


@pytest.mark.parametrize("length", ["²", "9" * 5000, "-1", "1_0", ""])
def test_a_length_that_is_none_is_answered(
    server: ReviewServer, length: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=60) as connection:
        head = f"POST {server.root}/decision HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
        connection.sendall(head.encode("latin-1"))
        assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 404")
    assert "Traceback" not in capfd.readouterr().err


def test_the_page_runs_its_own_script_alone_and_stands_in_no_frame(server: ReviewServer) -> None:
    with urlopen(server.address) as reply:
        policy, frames = (
            reply.headers[name] for name in ("Content-Security-Policy", "X-Frame-Options")
        )
        text = reply.read().decode()
    script = text[text.index("<script>") + 8 : text.rindex("</script>")]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert frames == "DENY"


def test_pairs_stand_side_by_side_with_roles_and_scores() -> None:
    pairs = pd.DataFrame(
        {
            "model_1": ["m", None], "model_2": ["n", None],
            "sentence_1": ["Dogs run.", "Cats  sleep."], "sentence_2": ["Run dogs.", "Dogs run."],
            "prefer_1": [None, "k l"],
        }
    )  # fmt: skip
    scores = pd.DataFrame({"m": [-3.0, -4.0], "n": [-5.0, None]}, index=["Dogs run.", "Run dogs."])
    rows = standing(pd.concat([pairs, pairs]), scores)  # a row per participant, say
    assert [[tuple(cell.values()) for cell in row] for row in rows] == [
        [
            ("Dogs run.", "accepted by m, rejected by n", {"m": -3.0, "n": -5.0}),
            ("Run dogs.", "accepted by n, rejected by m", {"m": -4.0}),
        ],
        [
            ("Cats sleep.", "preferred by k, l", {}),
            ("Dogs run.", "sentence 2", {"m": -3.0, "n": -5.0}),
        ],
    ]


def test_an_edited_form_stands_in_its_row(tmp_path: Path) -> None:
    edit = Decision("A apple.", "A", "edit", "An apple.", "article")
    write_decisions(tmp_path / "d.csv", [edit])
    content = Review(TABLE, tmp_path / "d.csv", "B").content()
    assert [cell["sentence"] for cell in content["rows"][1]] == [
        "The dog ran.",
        "The fire ran.",
        "An apple.",
    ]
    assert content["rows"][1][2]["role"] == "edited form of: A apple."
    assert [one["sentence"] for one in content["stimuli"]][3:] == ["An apple."]
    own = Review(TABLE, tmp_path / "d.csv", "A").content()["stimuli"]
    assert [one["sentence"] for one in own] == ["The dog ran.", "The fire ran.", "A apple."]
    assert own[2]["decision"]["edited"] == "An apple."


def test_a_mailed_page_asks_nobody_and_its_texts_end_no_script() -> None:
    bad = "</script><script>alert(1)</script>"
    table = pd.DataFrame({"sentence_1": [bad], "sentence_2": ["<img src=x>"]})
    page = mailed_review(Review(table, Path("none.csv"), bad, rule=bad))
    assert page.count("</script>") == 2
    assert "<img" not in page
    inside = page.partition('<script id="content" type="application/json">')[2]
    content = json.loads(inside.partition("</script>")[0])
    assert content["reviewer"] == content["rule"] == content["stimuli"][0]["sentence"] == bad
    assert "connect-src" not in page
    assert "default-src 'none'; script-src 'sha256-" in page


def test_control_characters_are_no_part_of_a_reason() -> None:
    decision = Decision("A apple.", "A", "edit", "An\0apple.", "odd\0\x1b[31m")
    assert (decision.edited, decision.reason) == ("An apple.", "odd [31m")
    assert "\0" not in appendix(TABLE, [decision])


def test_a_port_that_is_taken(server: ReviewServer) -> None:
    with pytest.raises(OutputError, match=f"cannot listen on port {server.server_port}: "):
        ReviewServer(server.review, server.server_port)
    with pytest.raises(InputError, match="a review needs the reviewer's name or initials"):
        Review(TABLE, Path("d.csv"), " ")


def test_the_appendix_depends_on_its_inputs_alone() -> None:
    decisions = [
        Decision("The dog ran.", "B", "approve"),
        Decision("The dog ran.", "A", "approve"),
        Decision("A apple.", "A", "edit", "An apple.", "article"),
        Decision("An apple.", "B", "approve"),
        Decision("The fire ran.", "A", "reject", "", "no sense"),
    ]
    page = appendix(TABLE, decisions, reviewers=2, warning="Fires.", lists=[("own.txt", "5 words")])
    assert page == appendix(
        TABLE, decisions[::-1], reviewers=2, warning="Fires.", lists=[("own.txt", "5 words")]
    )
    for part in ("Fires.", "A: reject, no sense", "A: edit, article", "own.txt: 5 words"):
        assert part in page
    assert "shown as they are: 1; in an edited form: 1; removed: 1" in page
    assert "There is no content warning." in appendix(TABLE, [])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "t.decisions.csv").write_text(
        "sentence,reviewer,decision\nThe dog ran.,A,approve\n", "utf-8"
    )
    (tmp_path / "block.txt").write_text("one\ntwo\n", "utf-8")
    ask = ["review", str(tmp_path / "t.csv")]
    out = ["--appendix", str(tmp_path / "a.html"), "--block", str(tmp_path / "block.txt")]
    assert main([*ask, *out]) == 0
    assert "block.txt: 2 words, kept out" in (tmp_path / "a.html").read_text("utf-8")
    assert main([*ask, *out, "--reviewer", "A"]) == 2
    assert main(ask) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "contstim: --appendix writes a page about all reviewers; leave out --reviewer",
        "contstim: a review needs the reviewer's name or initials; give --reviewer",
    ]


def test_what_two_reviewers_decided_is_joined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    texts = {
        "A": "The dog ran.,A,approve,,\nThe fire ran.,A,reject,,odd\n"
        "A apple.,A,edit,An apple.,an\n",
        "B": "The dog ran.,B,reject,,dull\nThe fire ran.,B,reject,,no\nA apple.,B,approve,,\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(f"sentence,reviewer,decision,edited,reason\n{text}", "utf-8")
    out = tmp_path / "d.csv"
    ask = ["review", str(tmp_path / "t.csv"), "--decisions", *(str(tmp_path / n) for n in texts)]
    assert main([*ask, "--out", str(out)]) == 0
    assert read_decisions(out) == sorted(
        read_decisions(*(tmp_path / name for name in texts)),
        key=lambda d: (d.reviewer, d.sentence),
    )
    # Observed agreement 1/3; expected (1 * 1 + 1 * 2 + 1 * 0) / 9 = 1/3.
    assert capsys.readouterr().out.splitlines() == [
        "A: 1 approved, 1 edited, 1 rejected of 3 sentences",
        "B: 1 approved, 0 edited, 2 rejected of 3 sentences",
        "Cohen's kappa of A and B: 0.000 over 3 sentences",
        "together: 0 approved, 0 edited, 3 left out",
        "not agreed: The dog ran.",
        "  A: approve",
        "  B: reject (dull)",
        "not agreed: A apple.",
        "  A: edit (An apple.; an)",
        "  B: approve",
    ]
    (tmp_path / "B").write_text(
        "sentence,reviewer,decision,reason\nThe dog ran.,A,reject,dull\n", "utf-8"
    )
    assert main([*ask, "--out", str(tmp_path / "other.csv")]) == 2
    assert capsys.readouterr().err == (
        f"contstim: {tmp_path / 'B'}: A has 'reject' for 'The dog ran.', and 'approve' or another "
        "text in a file before; keep one of the rows\n"
    )
    assert not (tmp_path / "other.csv").exists()
    assert main([*ask, "--reviewer", "A"]) == 2
    assert "join them first, without --reviewer and with --out" in capsys.readouterr().err


def test_sentences_of_another_language(tmp_path: Path) -> None:
    texts = ["Le homme dort dans l'été\u202f!", "Il est dans la maison et il dort?"]
    review = Review(pd.DataFrame({"sentence_1": texts}), tmp_path / "d.csv", "AB")
    content = review.content()
    assert (content["language"], content["direction"]) == ("fr", "ltr")
    assert [stimulus["sentence"] for stimulus in content["stimuli"]] == texts
    flags = [stimulus["flags"] for stimulus in content["stimuli"]]
    assert "agreement: le homme (elision)" in flags[0]
    assert "mark: no space before ?" in flags[1]
    page = appendix(pd.DataFrame({"sentence_1": texts}), [])
    assert "offensive words of French: none looked for; a list of them is LDNOOBW" in page
    hebrew = pd.DataFrame({"sentence_1": ["הכלב ישן ליד הדלת."]})
    assert Review(hebrew, tmp_path / "h.csv", "AB").content()["direction"] == "rtl"
    assert "none is known for this language" in appendix(hebrew, [])
