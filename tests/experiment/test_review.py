"""Test review pages, reviewers' decisions and the approved rows of a table.

Tests `contstim.experiment.review_page`, `contstim.experiment.commands.review` and
`contstim.experiment.commands.review_files`.
"""

import json
from base64 import b64encode
from hashlib import sha256
from itertools import product

import numpy as np
import pandas as pd
import pytest

from contstim import load_model
from contstim.cli import main
from contstim.errors import InputError
from contstim.experiment.review import (
    REVIEW_DECISIONS,
    Decision,
    compute_approval_shares,
    compute_kappa,
    list_sentences,
    read_decisions,
    read_source,
    resolve_decisions,
    select_approved_rows,
)
from contstim.experiment.review_page import render_blind_page, render_review_page
from contstim.selection.tokens import add_token_counts

TABLE = pd.DataFrame(
    {
        "model_1": ["m"], "model_2": ["n"],
        "natural": ["The dog ran."], "synthetic_1": ["The fire ran."], "synthetic_2": ["A apple."],
        "synthetic_1_lp_1": [-3.0], "synthetic_1_lp_2": [-8.5],
    }
)  # fmt: skip


def approve(sentence: str, reviewer: str = "A") -> Decision:
    return Decision(sentence, reviewer, "approve")


def edit(sentence: str, form: str, reviewer: str = "A") -> Decision:
    return Decision(sentence, reviewer, "edit", form, "reads better")


def reject(sentence: str, reviewer: str = "A") -> Decision:
    return Decision(sentence, reviewer, "reject", "", "odd")


def content_of(page: str) -> dict:
    inside = page.partition('<script id="content" type="application/json">')[2]
    return json.loads(inside.partition("</script>")[0])


def test_review_page_shows_roles_scores_and_flags() -> None:
    content = content_of(render_review_page(TABLE, " A  B "))
    assert content["reviewer"] == "A B"
    assert content["rows"] == [
        [
            {"sentence": "The dog ran.", "role": "natural sentence", "scores": {}},
            {
                "sentence": "The fire ran.",
                "role": "accepted by m, rejected by n",
                "scores": {"m": -3.0, "n": -8.5},
            },
            {"sentence": "A apple.", "role": "accepted by n, rejected by m", "scores": {}},
        ]
    ]
    assert [one["flags"] for one in content["stimuli"]] == [
        [],
        ["offensive word: fire"],
        ["agreement: a apple ('an' before a vowel)"],
    ]


def test_review_page_adds_scores_and_merges_repeated_rows() -> None:
    pairs = pd.DataFrame(
        {
            "model_1": ["m", None], "model_2": ["n", None],
            "sentence_1": ["Dogs run.", "Cats  sleep."], "sentence_2": ["Run dogs.", "Dogs run."],
            "prefer_1": [None, "k l"],
        }
    )  # fmt: skip
    scores = pd.DataFrame({"m": [-3.0, -4.0], "n": [-5.0, None]}, index=["Dogs run.", "Run dogs."])
    rows = content_of(render_review_page(pd.concat([pairs, pairs]), "A", scores=scores))["rows"]
    assert [[tuple(cell.values()) for cell in row] for row in rows] == [
        [
            ("Dogs run.", "accepted by m, rejected by n", {"m": -3.0, "n": -5.0}),
            ("Run dogs.", "accepted by n, rejected by m", {"m": -4.0}),
        ],
        [
            ("Cats sleep.", "preferred by k l", {}),
            ("Dogs run.", "sentence 2", {"m": -3.0, "n": -5.0}),
        ],
    ]


def test_review_page_runs_only_its_own_script() -> None:
    bad = "</script><script>alert(1)</script>"
    table = pd.DataFrame({"sentence_1": [bad], "sentence_2": ["<img src=x>"]})
    page = render_review_page(table, bad, instructions=bad)
    assert page.count("</script>") == 2
    assert "<img" not in page
    content = content_of(page)
    assert content["reviewer"] == content["rule"] == content["stimuli"][0]["sentence"] == bad
    script = page[page.index("<script>") + 8 : page.rindex("</script>")]
    hashed = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{hashed}';" in page
    with pytest.raises(InputError, match="the name or initials of the reviewer"):
        render_review_page(TABLE, " ")


def test_review_page_has_the_language_of_the_sentences() -> None:
    texts = ["Le homme dort dans l'été\u202f!", "Il est dans la maison et il dort?"]
    content = content_of(render_review_page(pd.DataFrame({"sentence_1": texts}), "AB"))
    assert (content["language"], content["direction"]) == ("fr", "ltr")
    assert [one["sentence"] for one in content["stimuli"]] == texts
    assert "agreement: le homme (elision)" in content["stimuli"][0]["flags"]


def test_blind_page_hides_the_sources() -> None:
    sources = {
        "written": [("A dog ran.", "Dog a ran."), ("We slept.", "Slept we.")],
        "natural": [("I slept.",), ("A dog ran.",), ("She won.",)],
    }
    page = render_blind_page(sources, "A", max_per_source=2, seed=1)
    content = content_of(page)
    assert page == render_blind_page(sources, "A", max_per_source=2, seed=1)
    assert "written" not in page
    assert content["blind"]
    texts = [one["sentence"] for one in content["stimuli"]]
    assert len(texts) == len({*texts}) <= 4
    drawn = [entry for entry in sources["written"] if {*entry} <= {*texts}]
    assert len(drawn) == 1  # the two sentences of a triplet are drawn together
    assert {cell["role"] for row in content["rows"] for cell in row} == {""}


def test_approval_shares_by_source_and_unit() -> None:
    sources = {
        "written": [("A dog ran.", "Dog a ran."), ("We slept.", "She won.")],
        "natural": [("I slept.",), ("A dog ran.",)],
    }
    texts = ["A dog ran.", "Dog a ran.", "We slept.", "She won.", "I slept."]
    decisions = [approve(t) if t != "Dog a ran." else reject(t) for t in texts]
    shares = compute_approval_shares(sources, decisions).set_index(["source", "unit"])
    assert shares["n"].to_dict() == {
        ("written", "sentence"): 4, ("written", "row"): 2, ("natural", "sentence"): 2,
    }  # fmt: skip
    assert shares["share"].tolist() == [0.75, 0.5, 1.0]
    # Wilson's interval of 3 of 4, from its formula.
    z, n, p = 1.959964, 4, 0.75
    middle, half = (
        (p + z**2 / (2 * n)) / (1 + z**2 / n),
        z / (1 + z**2 / n) * (p * (1 - p) / n + z**2 / (4 * n**2)) ** 0.5,
    )
    first = shares.loc[("written", "sentence")]
    assert (first["ci_low"], first["ci_high"]) == pytest.approx((middle - half, middle + half))


def test_sources_are_read_from_tables_and_lists(tmp_path) -> None:
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    assert read_source(tmp_path / "t.csv") == [("The fire ran.", "A apple.")]
    (tmp_path / "own.txt").write_text("He left.\nShe  won.\n", "utf-8")
    assert read_source(tmp_path / "own.txt") == [("He left.",), ("She won.",)]
    TABLE.assign(synthetic_2="").to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="lacks a sentence in row 1; fill"):
        read_source(tmp_path / "t.csv")


def test_resolve_decisions_of_one_and_two_reviewers() -> None:
    both = [approve("s"), approve("s", "B")]
    assert resolve_decisions(both, 2) == {"s": "s"}
    assert resolve_decisions(both[:1], 2) == {"s": None}
    assert resolve_decisions([approve("s"), reject("s", "B")]) == {"s": None}
    assert resolve_decisions([reject("s"), reject("s", "B")]) == {"s": None}
    assert resolve_decisions([edit("s", "t")]) == {"s": "t"}
    assert resolve_decisions([edit("s", "t"), edit("s", "t", "B")], 2) == {"s": "t"}
    assert resolve_decisions([edit("s", "t"), edit("s", "u", "B")]) == {"s": None}
    assert resolve_decisions([edit("s", "t"), approve("s", "B")]) == {"s": None}


@pytest.mark.parametrize("seed", range(5))
def test_kappa_equals_statsmodels(seed: int) -> None:
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(seed)
    sides = rng.choice(REVIEW_DECISIONS, (2, 30), p=[0.6, 0.3, 0.1])
    decisions = [
        Decision(f"s{i}", who, choice, "t" if choice == "edit" else "")
        for who, side in zip("AB", sides.tolist(), strict=True)
        for i, choice in enumerate(side)
    ]
    value, n = compute_kappa(decisions)["A", "B"]
    counts = np.zeros((3, 3))
    for one, two in sides.T:
        counts[REVIEW_DECISIONS.index(one), REVIEW_DECISIONS.index(two)] += 1
    assert (value, n) == (pytest.approx(inter_rater.cohens_kappa(counts).kappa), 30)


def test_kappa_is_undefined_without_variation() -> None:
    assert np.isnan(compute_kappa([approve("s"), approve("s", "B")])["A", "B"][0])
    assert np.isnan(compute_kappa([approve("s"), approve("t", "B")])["A", "B"][0])


def triplets() -> pd.DataFrame:
    names = ("natural", "synthetic_1", "synthetic_2")
    specs = ("contstim:bigram", "contstim:trigram")
    texts = [("The ship left.", "The ship fell.", "The ship ran."), ("He won.", "He ran.", "He.")]
    rows = []
    for row in texts:
        made = dict(zip(("model_1", "model_2", *names), (*specs, *row), strict=True))
        for name, (k, spec) in product(names, enumerate(specs, start=1)):
            made[f"{name}_lp_{k}"] = load_model(spec).score([made[name]])[0]
        rows.append(made)
    return pd.DataFrame(rows)


def score(spec: str, sentences: list[str]) -> np.ndarray:
    return load_model(spec).score(sentences)


def test_approved_rows_are_kept_and_edited_rows_rescored() -> None:
    table = triplets()
    first = [approve("The ship left."), edit("The ship fell.", "The ship sank.")]
    kept = select_approved_rows(table, [*first, approve("The ship ran.")], score)
    assert len(kept) == 1
    assert kept["synthetic_1"].item() == "The ship sank."
    for k in (1, 2):
        expected = score(kept[f"model_{k}"].item(), ["The ship sank."])[0]
        assert kept[f"synthetic_1_lp_{k}"].item() == pytest.approx(expected)
        assert kept[f"natural_lp_{k}"].item() == table[f"natural_lp_{k}"][0]
    counted = add_token_counts(table)
    kept = select_approved_rows(counted, [*first, approve("The ship ran.")], score)
    assert kept["synthetic_1_tokens_1"].item() == counted["synthetic_1_tokens_1"][0]
    everything = [approve(text) for text in list_sentences(table)]
    pd.testing.assert_frame_equal(select_approved_rows(table, everything, score), table)
    with pytest.raises(InputError, match="none of 2 rows has only approved sentences"):
        select_approved_rows(table, first, score)
    pairs = pd.DataFrame({"sentence_1": ["a b."], "sentence_2": ["c d."]})
    with pytest.raises(InputError, match="can be scored again in triplets of two models only"):
        select_approved_rows(pairs, [edit("a b.", "x y."), approve("c d.")], score)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("s,A,perhaps,,", "the decision about 's' is 'perhaps'; give one of approve, reject, edit"),
        ("s,,approve,,", "a decision needs a sentence and a reviewer"),
        ("s,A,edit,,", "the edited form of 's' is ''; give a changed sentence"),
        ("s,A,edit,s,", "the edited form of 's' is 's'; give a changed sentence"),
        ("s,A,approve,t,", "the edited form of 's' is 't'; give a changed sentence"),
        ("s,A,edit,t\u200f,", "form 't\\\\u200f' contains an invisible mark of text direction"),
        ("s,A,edit,\u202at,", "remove the mark"),
        ("s,A,edit,t\u2069,", "remove the mark"),
        ("s,A,approve,,\ns ,A,reject,,", "A decided twice about 's'; keep one row"),
    ],
)
def test_invalid_decisions_are_rejected(tmp_path, row: str, message: str) -> None:
    (tmp_path / "d.csv").write_text(f"sentence,reviewer,decision,edited,reason\n{row}\n", "utf-8")
    with pytest.raises(InputError, match=message):
        read_decisions(tmp_path / "d.csv")


def test_command_writes_pages_and_reads_decisions(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    assert main(["review", "t.csv", "--reviewer", "A", "--page", "A.html"]) == 0
    assert content_of((tmp_path / "A.html").read_text("utf-8"))["reviewer"] == "A"
    texts = {
        "A": "The dog ran.,A,approve,,\nThe fire ran.,A,reject,,odd\n"
        "A apple.,A,edit,An apple.,an\n",
        "B": "The dog ran.,B,reject,,dull\nThe fire ran.,B,reject,,no\nA apple.,B,approve,,\n",
    }
    for name, text in texts.items():
        path = tmp_path / f"{name}.csv"
        path.write_text(f"sentence,reviewer,decision,edited,reason\n{text}", "utf-8")
    assert main(["review", "t.csv", "--decisions", "A.csv", "--decisions", "B.csv"]) == 0
    # Observed agreement 1/3; expected (1 * 1 + 1 * 2 + 1 * 0) / 9 = 1/3.
    assert capsys.readouterr().out.splitlines() == [
        "A: 1 approved, 1 edited, 1 rejected of 3 sentences",
        "B: 1 approved, 0 edited, 2 rejected of 3 sentences",
        "Cohen's kappa of A and B: 0.000 over 3 sentences",
        "result: 0 approved, 0 edited, 3 left out",
        "disagreement: The dog ran.",
        "  A: approve",
        "  B: reject (dull)",
        "disagreement: A apple.",
        "  A: edit (An apple.; an)",
        "  B: approve",
    ]
    table = triplets()
    table.to_csv("triplets.csv", index=False)
    everything = [approve(text) for text in list_sentences(table)]
    pd.DataFrame([vars(d) for d in everything]).to_csv("all.csv", index=False)
    given = ["--decisions", "all.csv", "--out", "approved.csv"]
    assert main(["review", "triplets.csv", *given]) == 0
    assert pd.read_csv("approved.csv").equals(pd.read_csv("triplets.csv"))
    blind = ["review", "--blind", "written=triplets.csv", "--blind", "natural=t.csv"]
    assert main([*blind, "--reviewer", "A", "--page", "blind.html", "--per-source", "2"]) == 0
    assert main([*blind, "--decisions", "all.csv", "--out", "shares.csv"]) == 0
    assert pd.read_csv("shares.csv")["share"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["t.csv"], "give either --page, for a reviewer, or --decisions"),
        ([], "give either a table to review, or --blind NAME=FILE"),
        (["t.csv", "--page", "p.html"], "--page needs the name or initials of the reviewer"),
        (
            ["t.csv", "--page", "p.html", "--reviewer", "A", "--per-source", "3"],
            "--per-source has no effect",
        ),
        (["t.csv", "--decisions", "d.csv", "--reviewer", "A"], "--reviewer has no effect with"),
        (["--blind", "t.csv", "--decisions", "d.csv"], "is not NAME=FILE, each name once"),
    ],
)
def test_options_without_effect_are_rejected(given, message, capsys) -> None:
    assert main(["review", *given]) == 2
    assert message in capsys.readouterr().err
