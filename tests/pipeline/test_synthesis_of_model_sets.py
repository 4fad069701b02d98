"""Synthesis for sets of models with bounds, from Python, plans and the command line."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from small_study import RecordingExecutor, synthesis_plan
from toy_words import SENTENCES as SHORT
from toy_words import UPPER, VOCABULARY

from contstim import (
    Edits,
    Problem,
    SentenceModel,
    SynthesisResult,
    load_model,
    pool,
    standard_deviations,
    synthesize,
)
from contstim.cli import main
from contstim.errors import InfeasibleError, InputError
from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.study import read_study_plan, run_status, run_study
from contstim.pipeline.synthesis import write_synthesis
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.synthesis.results import Row, SentenceRow, Triplet
from contstim.text.vocabulary import Vocabulary

pytestmark = pytest.mark.usefixtures("table_family")

SENTENCES = SHORT[:3] + [
    f"{first} {second} {third} the {last}."
    for first in UPPER
    for second in ("cat", "man")
    for third, last in (("saw", "fish"), ("ate", "home"), ("ran", "red"), ("of", "big"))
]
MODELS = ["table:11", "table:12", "table:13"]
BOUND = "table:14>=natural-5"
SETS = {
    "two against one": (MODELS[:2], MODELS[2:]),
    "one against two": (MODELS[:1], MODELS[1:]),
    "what all accept": (["table:14"], MODELS),
}


def _python(
    reject: list[str], accept: list[str], sentences: Sequence[str]
) -> list[SynthesisResult]:
    """Return the improved syntheses of the Python function."""
    rejecting, accepting = ([load_model(spec) for spec in side] for side in (reject, accept))
    problem = Problem(
        tuple(rejecting),
        tuple(accepting),
        0.5,
        (BOUND,),
        Edits(max_changes=3, fixed=(0,)),
        standard_deviations(rejecting, SENTENCES) if len(reject) > 1 else (),
    )
    every = [
        synthesize(text, problem=problem, vocabulary=VOCABULARY, strategy="edit?candidates=all")
        for text in sentences
    ]
    return [found for found in every if found.is_improved]


def _check(row: dict[str, str], found: SynthesisResult) -> None:
    assert row["natural"] == found.natural
    assert row["synthetic"] == found.sentence
    assert float(row["loss"]) == found.loss
    assert row["strategy"] == "edit?candidates=all"
    both = zip(found.models, found.natural_scores, found.scores, strict=True)
    for model, natural, synthetic in both:
        assert float(row[f"natural_lp {model}"]) == natural
        assert float(row[f"synthetic_lp {model}"]) == synthetic
    assert len(row) == 9 + 2 * len(found.models)


def _rows(plan: StudyPlan, out: Path | None = None) -> list[Row]:
    return write_synthesis(plan, out, SequentialExecutor()).rows


@pytest.mark.parametrize("name", SETS)
def test_plan_command_and_python_give_equal_rows(tmp_path: Path, name: str) -> None:
    reject, accept = SETS[name]
    expected = _python(reject, accept, SENTENCES[:3])
    assert expected
    VOCABULARY.save(tmp_path / "words.csv")
    (tmp_path / "natural.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    (tmp_path / "study.toml").write_text(
        f"models = {MODELS}\n[study]\nname = 'sets'\n[sentences]\nfile = 'natural.txt'\n"
        "[vocabulary]\nfile = 'words.csv'\n[synthesis]\nstrategy = 'edit?candidates=all'\n"
        f"allocation = 'all'\nper_pair = 3\nreject = {reject}\naccept = {accept}\n"
        f"min_scores = ['{BOUND}']\nmargin = 0.5\nedits = 'max=3,fixed=0'\n",
        "utf-8",
    )
    plan = read_study_plan(tmp_path / "study.toml")
    report = run_study(plan, SequentialExecutor())
    assert report.is_complete
    assert {status.table_state for status in run_status(plan)[0]} == {"up to date"}
    with (plan.out / "synthesized.csv").open(encoding="utf-8", newline="") as file:
        from_toml = list(csv.DictReader(file))
    assert len(from_toml) == len(expected)
    for row, found in zip(from_toml, expected, strict=True):
        _check(row, found)

    sides = [word for spec in reject for word in ("--reject", spec)]
    sides += [word for spec in accept for word in ("--accept", spec)]
    common = ["--min-score", BOUND, "--margin", "0.5", "--edits", "max=3,fixed=0"]
    common += ["--sentences", str(tmp_path / "natural.txt"), "--strategy", "edit?candidates=all"]
    common += ["--vocabulary", str(tmp_path / "words.csv"), "--out", str(tmp_path / "out.csv")]
    if len(reject) == 1:  # the scales of several depend on all natural sentences
        common += ["--limit", "3"]
    assert main(["synthesize", *sides, *common]) == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        from_command = list(csv.DictReader(file))
    assert from_command[: len(from_toml)] == from_toml
    # The finished file is read back.
    written = (tmp_path / "out.csv").read_bytes()
    assert main(["synthesize", *sides, *common]) == 0
    assert (tmp_path / "out.csv").read_bytes() == written


def test_interrupted_contrasts_continue_to_equal_bytes(tmp_path: Path) -> None:
    reject, accept = SETS["two against one"]
    plan = synthesis_plan(
        SENTENCES, VOCABULARY, models=MODELS, reject=tuple(reject), accept=tuple(accept), per_pair=2
    )
    whole, out = tmp_path / "whole.csv", tmp_path / "stopped.csv"
    assert all(isinstance(row, SentenceRow) for row in _rows(plan, whole))
    with pytest.raises(KeyboardInterrupt):
        write_synthesis(plan, out, RecordingExecutor(stop_after=3))
    _rows(plan, out)
    assert out.read_bytes() == whole.read_bytes()


def test_scales_are_estimated_with_additional_sentences(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(pool()) + "\n", "utf-8")
    vocabulary = Vocabulary.from_text(tmp_path / "text.txt", size=500)
    bundled = ["contstim:bigram", "contstim:trigram", "contstim:unigram"]
    sides = {"reject": tuple(bundled[:2]), "accept": tuple(bundled[2:])}
    start = "The ship left at dawn."
    plan = synthesis_plan([start], vocabulary, models=bundled, **sides)
    (row,) = _rows(plan)
    assert isinstance(row, SentenceRow)
    reject = [load_model(spec) for spec in bundled[:2]]
    scales = standard_deviations(reject, [start, *pool()[:30]])
    problem = Problem(tuple(reject), (load_model(bundled[2]),), scales=scales)
    strategy = "edit?candidates=all"
    expected = synthesize(start, problem=problem, vocabulary=vocabulary, strategy=strategy)
    assert row.loss == expected.loss < 0


def test_triplets_contain_the_scores_of_bounds(tmp_path: Path) -> None:
    plan = synthesis_plan(SENTENCES[:5], VOCABULARY, (MODELS[0], MODELS[1]), min_scores=(BOUND,))
    rows = _rows(plan, tmp_path / "t.csv")
    assert rows
    bounded = load_model("table:14")
    for row in rows:
        assert isinstance(row, Triplet)
        texts = [row.natural, row.synthetic_1, row.synthetic_2]
        assert [value for _, value in row.extra_columns] == bounded.score(texts).tolist()
        assert min(bounded.score(texts)[1:]) >= bounded.score(texts)[0] - 5.0
        _check_models(row, [load_model(spec) for spec in MODELS[:2]])
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        header = next(csv.reader(file))
    name = "table:14?exact=all"
    assert header[-3:] == [f"natural_lp {name}", f"synthetic_1_lp {name}", f"synthetic_2_lp {name}"]


def _check_models(row: Triplet, models: list[SentenceModel]) -> None:
    one, two = models
    assert (row.model_1, row.model_2) == (one.spec, two.spec)
    assert row.synthetic_1_lp_1 == one.score([row.synthetic_1])[0] >= row.natural_lp_1
    assert row.synthetic_2_lp_2 == two.score([row.synthetic_2])[0] >= row.natural_lp_2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"reject": ("a",)},
            "reject needs an accepting model or a bound; add accept or min_scores",
        ),
        ({"accept": ("a",)}, "accept needs a rejecting model; add reject"),
        (
            {"reject": ("a",), "accept": ("b",), "pairs": (("a", "b"),)},
            "pairs excludes reject and accept; leave out one of them",
        ),
        (
            {"reject": ("a",), "accept": ("b",), "per_sentence": 2},
            "per_sentence and minimum_drop apply to triplets, but reject and accept make single "
            "sentences; leave out per_sentence and minimum_drop",
        ),
        (
            {"min_scores": ("contstim:gpt",)},
            "'contstim:gpt' is not a minimum score; write MODEL>=NUMBER or MODEL>=natural-NUMBER, "
            "in nats, for example contstim:gpt>=natural-5",
        ),
        (
            {"edits": "words=first:The"},
            "'words=first:The' is not a limit on edits; write max=3, fixed=0+2, changed=1, "
            "words=1:dog+cat, agreement, same-tokens, same-class or same-tag",
        ),
    ],
)
def test_contradictory_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        SynthesisOptions(**options)
    assert str(error.value) == message


ONE = ["--reject", MODELS[0], "--accept", MODELS[1]]
SENTENCE = "The dog saw the cat."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            [*ONE, "--min-score", "table:13>=-5"],
            "the natural sentence 'The dog saw the cat.' violates table:13>=-5 by 27.38; lower the "
            "bound, or leave the sentence out",
        ),
        (
            [*ONE, "--min-score", "table:13>=natural", "--min-score", "table:14>=-30.5"],
            "the natural sentence 'The dog saw the cat.' violates table:14>=-30.5 by 9.023; lower "
            "the bound, or leave the sentence out",
        ),
        (
            [*ONE, "--edits", "words=1:zebra"],
            "table:11?exact=all knows none of the 1 words listed for position 1; list words that "
            "it knows",
        ),
        (
            [*ONE, "--edits", "max=1,words=4:home"],
            "no sentence was found that makes the required edits of 'The dog saw the cat.' and "
            "satisfies table:12?exact=all>=natural: 'The dog saw the home.' violates it by 4.432; "
            "lower the bound, or let more words change",
        ),
        (
            ["--reject", MODELS[0], "--accept", MODELS[0]],
            "a synthesis needs different models, got 'table:11' twice; specs that differ in metric "
            "or reduction are different models",
        ),
        (
            ["--reject", MODELS[0], "--accept", "table:11?exact=all"],
            "models lists 'table:11?exact=all' twice, once as 'table:11'; keep one",
        ),
    ],
)
def test_impossible_problems_end_with_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    VOCABULARY.save(tmp_path / "words.csv")
    out = tmp_path / "out.csv"
    files = ["--vocabulary", str(tmp_path / "words.csv"), "--out", str(out)]
    assert main(["synthesize", *options, *files, SENTENCE]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"contstim: {message}"
    assert not out.exists()


def test_infeasible_bound_is_reported_before_the_tasks(tmp_path: Path) -> None:
    (tmp_path / "natural.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    VOCABULARY.save(tmp_path / "words.csv")
    (tmp_path / "study.toml").write_text(
        f"models = {MODELS}\n[study]\nname = 'sets'\n[sentences]\nfile = 'natural.txt'\n"
        "[vocabulary]\nfile = 'words.csv'\n[synthesis]\nmin_scores = ['table:14>=-3']\n",
        "utf-8",
    )
    plan = read_study_plan(tmp_path / "study.toml")
    with pytest.raises(InfeasibleError, match="violates table:14>=-3 by"):
        run_study(plan, SequentialExecutor())
    assert not (plan.out / "tasks").exists()


def test_triplets_cannot_be_selected_from_single_sentences(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        f"models = {MODELS}\n[study]\nname = 'sets'\n[synthesis]\nreject = ['table:11']\n"
        "accept = ['table:12']\n[triplets]\n",
        "utf-8",
    )
    with pytest.raises(InputError) as error:
        read_study_plan(tmp_path / "study.toml")
    assert str(error.value).endswith(
        "[triplets] needs triplets, but synthesis.reject and synthesis.accept make single "
        "sentences; remove these two options, or remove [triplets]"
    )
