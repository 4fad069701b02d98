"""Targets over sets, floors and edits: the same from Python, TOML and the command line."""

import csv
from collections.abc import Sequence
from pathlib import Path

import pytest
from small import Counting, one_stage
from toy_words import SENTENCES as SHORT
from toy_words import UPPER, VOCABULARY

from contstim import (
    Edits,
    SentenceModel,
    Synthesis,
    common_failure,
    load_model,
    one_against_all,
    pool,
    problem_of,
    standard_deviations,
    synthesize,
)
from contstim.cli import main
from contstim.errors import InfeasibleError, InputError
from contstim.pipeline import InProcess
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.running import read_study_plan, run_status, run_study
from contstim.pipeline.stages import StudyPlan
from contstim.pipeline.synthesis import write_synthesis
from contstim.synthesis.results import Row, Triplet, Written
from contstim.text.vocabulary import Vocabulary

pytestmark = pytest.mark.usefixtures("table_family")

SENTENCES = SHORT[:3] + [
    f"{first} {second} {third} the {last}."
    for first in UPPER
    for second in ("cat", "man")
    for third, last in (("saw", "fish"), ("ate", "home"), ("ran", "red"), ("of", "big"))
]
MODELS = ["table:11", "table:12", "table:13"]
FLOOR = "table:14/word>=natural-1"
NAMES = [f"{spec}?exact=all" for spec in MODELS]


def _sides(target: str) -> list[tuple[Sequence[str], Sequence[str]]]:
    return {
        "one-against-all": lambda: list(one_against_all(MODELS)),
        "split": lambda: [(MODELS[:2], MODELS[2:])],
        "common-failure": lambda: [common_failure(MODELS, "table:14")],
    }[target]()


OPTIONS = {
    "one-against-all": {},
    "split": {"reject": MODELS[:2], "accept": MODELS[2:]},
    "common-failure": {"reference": "table:14"},
}


def _python(target: str, sentences: Sequence[str]) -> list[Synthesis]:
    """Return what the functions of Python write."""
    found = []
    for specs in _sides(target):
        reject, accept = ([load_model(spec) for spec in side] for side in specs)
        problem = problem_of(
            reject,
            accept,
            floors=[FLOOR],
            margin=0.5,
            scales=standard_deviations(reject, SENTENCES) if len(reject) > 1 else (),
            edits=Edits(most=3, fixed=(0,)),
        )
        found += [
            synthesize(text, problem=problem, vocabulary=VOCABULARY, strategy="exhaustive")
            for text in sentences
        ]
    return found


def _check(row: dict[str, str], found: Synthesis) -> None:
    assert row["natural"] == found.natural
    assert row["synthetic"] == found.sentence
    assert float(row["loss"]) == found.loss
    both = zip(found.models, found.natural_scores, found.scores, strict=True)
    for model, natural, synthetic in both:
        assert float(row[f"natural_lp {model}"]) == natural
        assert float(row[f"synthetic_lp {model}"]) == synthetic
    assert len(row) == 7 + 2 * len(found.models)


def _plan(target: str) -> StudyPlan:
    return one_stage(
        SENTENCES,
        VOCABULARY,
        models=MODELS,
        target=target,
        floors=(FLOOR,),
        margin=0.5,
        most_changes=3,
        fixed=(0,),
        per_pair=2,
        **{key: tuple(v) if isinstance(v, list) else v for key, v in OPTIONS[target].items()},
    )


def _rows(plan: StudyPlan, out: Path | None = None) -> list[Row]:
    return write_synthesis(plan, out, InProcess()).rows


@pytest.mark.parametrize("target", list(OPTIONS))
def test_a_target_in_toml_on_the_command_line_and_in_python(tmp_path: Path, target: str) -> None:
    expected = _python(target, SENTENCES[:3])
    VOCABULARY.save(tmp_path / "words.csv")
    (tmp_path / "natural.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    extra = "".join(f"{key} = {value!r}\n" for key, value in OPTIONS[target].items())
    (tmp_path / "study.toml").write_text(
        f"models = {MODELS}\n[study]\nname = 'sets'\n[sentences]\nfile = 'natural.txt'\n"
        "[vocabulary]\nfile = 'words.csv'\n[synthesis]\nstrategy = 'exhaustive'\nstarts = 'all'\n"
        "per_pair = 3\n"
        f"target = '{target}'\n{extra}floors = ['{FLOOR}']\nmargin = 0.5\nmost_changes = 3\n"
        "fixed = [0]\n",
        "utf-8",
    )
    plan = read_study_plan(tmp_path / "study.toml")
    report = run_study(plan, InProcess())
    assert report.complete
    assert {status.table for status in run_status(plan)[0]} == {"up to date"}
    with (plan.out / "synthesized.csv").open(encoding="utf-8", newline="") as file:
        from_toml = list(csv.DictReader(file))
    assert len(from_toml) == len(expected)
    for row, found in zip(from_toml, expected, strict=True):
        _check(row, found)

    models = [word for spec in MODELS for word in ("--model", spec)]
    sides = {
        "one-against-all": models,
        "split": ["--reject", MODELS[0], "--reject", MODELS[1], "--accept", MODELS[2]],
        "common-failure": [*models, "--reference", "table:14"],
    }[target]
    common = ["--floor", FLOOR, "--margin", "0.5", "--most-changes", "3", "--fixed", "0"]
    files = [
        "--sentences",
        str(tmp_path / "natural.txt"),
        "--vocabulary",
        str(tmp_path / "words.csv"),
    ]
    how = ["--target", target, "--strategy", "exhaustive", "--per-pair", "3"]
    how += ["--out", str(tmp_path / "out.csv")]
    assert main(["synthesize", *sides, *common, *files, *how]) == 0
    written = (tmp_path / "out.csv").read_bytes()
    assert written == (plan.out / "synthesized.csv").read_bytes()
    # The finished file is read back.
    assert main(["synthesize", *sides, *common, *files, *how]) == 0
    assert (tmp_path / "out.csv").read_bytes() == written


@pytest.mark.parametrize("target", list(OPTIONS))
def test_an_interrupted_file_of_a_set_is_continued_to_the_same_bytes(
    tmp_path: Path, target: str
) -> None:
    plan = _plan(target)
    whole = tmp_path / "whole.csv"
    assert all(isinstance(row, Written) for row in _rows(plan, whole))
    out = tmp_path / "stopped.csv"
    with pytest.raises(KeyboardInterrupt):
        write_synthesis(plan, out, Counting(stop_after=5))
    _rows(plan, out)
    assert out.read_bytes() == whole.read_bytes()


def test_scales_come_from_bundled_sentences_where_few_are_given(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(pool()) + "\n", "utf-8")
    vocabulary = Vocabulary.from_text(tmp_path / "text.txt", size=500)
    bundled = ["contstim:bigram", "contstim:trigram", "contstim:unigram"]
    sides = {"reject": tuple(bundled[:2]), "accept": tuple(bundled[2:])}
    start = "The ship left at dawn."
    plan = one_stage([start], vocabulary, models=bundled, target="split", **sides)
    (row,) = _rows(plan)
    assert isinstance(row, Written)
    reject = [load_model(spec) for spec in bundled[:2]]
    scales = standard_deviations(reject, [start, *pool()[:30]])
    problem = problem_of(reject, [load_model(bundled[2])], scales=scales)
    expected = synthesize(start, problem=problem, vocabulary=vocabulary, strategy="exhaustive")
    assert row.loss == expected.loss < 0


def test_triplets_with_a_floor_carry_its_scores(tmp_path: Path) -> None:
    plan = one_stage(SENTENCES[:5], VOCABULARY, (MODELS[0], MODELS[1]), floors=(FLOOR,))
    rows = _rows(plan, tmp_path / "t.csv")
    assert rows
    floor = load_model("table:14")
    for row in rows:
        assert isinstance(row, Triplet)
        texts = [row.natural, row.synthetic_1, row.synthetic_2]
        assert [value for _, value in row.others] == floor.score(texts).tolist()
        n = len(row.natural.split())
        # With room for what division does to the last digit.
        assert min(floor.score(texts)[1:]) / n >= floor.score(texts)[0] / n - 1.0 - 1e-12
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
            {"target": "split"},
            "the target 'split' needs reject and accept; give that",
        ),
        (
            {"target": "common-failure"},
            "the target 'common-failure' needs reference; give that",
        ),
        (
            {"target": "one-against-all", "per_sentence": 2},
            "per_sentence and minimum_drop are for triplets, and the target is "
            "'one-against-all'; leave them out",
        ),
        (
            {"floors": ("contstim:gpt",)},
            "'contstim:gpt' is not a floor; write MODEL>=VALUE or "
            "MODEL>=natural-MARGIN, for example "
            "contstim:gpt>=natural-5 or contstim:gpt/word>=-6, or plausible or strict",
        ),
        (
            {"most_changes": 1, "changed": (0, 1)},
            "at most 1 words may change, but 2 must; allow more",
        ),
        (
            {"words_at": {"first": ("The",)}},
            "words_at has the position 'first'; give whole numbers",
        ),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as error:
        SynthesisOptions(**options)
    assert str(error.value) == message


ONE = ["--reject", MODELS[0], "--accept", MODELS[1]]
SENTENCE = "The dog saw the cat."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            [*ONE, "--floor", "table:13>=-5"],
            "the natural sentence 'The dog saw the cat.' breaks table:13>=-5 by 27.38; ask for "
            "less, or leave the sentence out",
        ),
        (
            [*ONE, "--floor", "table:13/word>=-5"],
            "the natural sentence 'The dog saw the cat.' breaks table:13/word>=-5 by 1.475 a word; "
            "ask for less, or leave the sentence out",
        ),
        (
            [*ONE, "--floor", "table:13>=natural", "--floor", "table:14>=-30.5"],
            "the natural sentence 'The dog saw the cat.' breaks table:14>=-30.5 by 9.023; ask for "
            "less, or leave the sentence out",
        ),
        (
            [*ONE, "--fixed", "5"],
            "position 5 (fixed) is beyond the end of 'The dog saw the cat.'; its 5 words have "
            "positions 0 to 4",
        ),
        (
            [*ONE, "--changed", "7"],
            "position 7 (to be changed) is beyond the end of 'The dog saw the cat.'; its 5 words "
            "have positions 0 to 4",
        ),
        (
            [*ONE, "--words-at", "6=cat"],
            "position 6 (with words) is beyond the end of 'The dog saw the cat.'; its 5 words have "
            "positions 0 to 4",
        ),
        (
            [*ONE, *(word for p in range(5) for word in ("--fixed", str(p)))],
            "every word of 'The dog saw the cat.' is fixed; let one change",
        ),
        (
            [*ONE, "--fixed", "1", "--changed", "1"],
            "position 1 is both fixed and to be changed; choose one",
        ),
        (
            [*ONE, "--changed", "0", "--changed", "1", "--most-changes", "1"],
            "at most 1 words may change, but 2 must; allow more",
        ),
        (
            [*ONE, "--words-at", "1=zebra"],
            "none of the 1 words listed for position 1 is known to table:11?exact=all; list words "
            "it knows",
        ),
        (
            [*ONE, "--changed", "1", "--words-at", "1=dog"],
            "position 1 of 'The dog saw the cat.' is to be changed, but no other word may stand "
            "there; allow more words",
        ),
        (
            [*ONE, "--changed", "4", "--most-changes", "1", "--words-at", "4=home"],
            "no sentence was found that changes what must change in 'The dog saw the cat.' and "
            "keeps table:12?exact=all>=natural: 'The dog saw the home.' misses it by 4.432; ask "
            "for less, or let more words change",
        ),
        (
            ["--target", "one-against-all", "--model", MODELS[0]],
            "the target one-against-all compares models, got 1 (table:11); give at least two",
        ),
        (
            ["--target", "common-failure", "--model", MODELS[0], "--reference", MODELS[1]],
            "the target common-failure compares models, got 1 (table:11); give at least two",
        ),
        (
            ["--target", "pair", "--model", MODELS[0]],
            "the target pair compares models, got 1 (table:11); give at least two",
        ),
        (
            ["--target", "split", "--model", MODELS[0]],
            "the target 'split' needs reject and accept; give that",
        ),
        (
            [
                *("--target", "common-failure", "--model", MODELS[0], "--model", MODELS[1]),
                *("--reference", MODELS[1]),
            ],
            "a target needs different models, got 'table:12' twice; specs that differ in metric or "
            "reduction are different models",
        ),
        (
            ["--reject", MODELS[0]],
            "the target 'split' needs accept; give that",
        ),
        (
            ["--reject", MODELS[0], "--accept", "table:11?exact=all"],
            "models lists 'table:11?exact=all' twice, once as 'table:11'; keep one",
        ),
        (
            ["--model", MODELS[0]],
            "name the models: --pair SPEC_1 SPEC_2 for triplets, --reject SPEC --accept SPEC, or "
            "--target with --model",
        ),
        (
            [*ONE, "--words-at", "1"],
            "--words-at '1' lists no words; write POSITION=WORD,WORD",
        ),
        (
            [*ONE, "--words-at", "1=dog", "--words-at", "2=saw", "--words-at", "1=cat"],
            "--words-at lists words for position 1 twice; list them once, 1=dog,cat",
        ),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    VOCABULARY.save(tmp_path / "words.csv")
    out = tmp_path / "out.csv"
    files = ["--vocabulary", str(tmp_path / "words.csv"), "--out", str(out)]
    assert main(["synthesize", *options, *files, SENTENCE]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"contstim: {message}"
    assert not out.exists()


def test_a_floor_that_a_study_cannot_keep_is_refused_before_anything_is_searched(
    tmp_path: Path,
) -> None:
    (tmp_path / "natural.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    VOCABULARY.save(tmp_path / "words.csv")
    (tmp_path / "study.toml").write_text(
        f"models = {MODELS}\n[study]\nname = 'sets'\n[sentences]\nfile = 'natural.txt'\n"
        "[vocabulary]\nfile = 'words.csv'\n[synthesis]\nfloors = ['table:14>=-3']\n",
        "utf-8",
    )
    plan = read_study_plan(tmp_path / "study.toml")
    with pytest.raises(InfeasibleError, match="breaks table:14>=-3 by"):
        run_study(plan, InProcess())
    assert not (plan.out / "tasks").exists()


def test_triplets_are_not_chosen_of_other_targets(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        f"models = {MODELS}\n[study]\nname = 'sets'\n[synthesis]\ntarget = 'one-against-all'\n"
        "[triplets]\n",
        "utf-8",
    )
    with pytest.raises(InputError) as error:
        read_study_plan(tmp_path / "study.toml")
    assert str(error.value).endswith(
        "[triplets] chooses among triplets of pairs, but synthesis.target is 'one-against-all'; "
        "leave out one of them"
    )
