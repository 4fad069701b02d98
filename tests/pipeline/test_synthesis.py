"""Synthesis of sentences into one file.

Tests `contstim.pipeline.stages.synthesis`, `contstim.pipeline.synthesis_job` and
`contstim.pipeline.tasks`.
"""

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from small_study import RecordingExecutor, create_run, synthesis_plan
from toy_words import SENTENCES, VOCABULARY

from contstim import load_model
from contstim.columns import TRIPLETS
from contstim.errors import InputError, MissingExtraError, OutputError
from contstim.files import LockedError, write_atomically
from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.pooled_job import PooledSynthesisJob
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.synthesis import write_synthesis
from contstim.pipeline.synthesis_options import SynthesisOptions
from contstim.synthesis import synthesize
from contstim.synthesis.results import Row, SentenceRow
from contstim.synthesis.shared_vocabulary import SharedVocabulary
from contstim.synthesis.strategy import load_cached_model
from contstim.synthesis.triplets import synthesize_triplets
from contstim.training.ngram import train_ngram

pytestmark = pytest.mark.usefixtures("table_family")

PLAN = synthesis_plan(SENTENCES, VOCABULARY, ("table:11", "table:12"), seed=1)


def _write(
    out: Path | None, plan: StudyPlan = PLAN, executor: SequentialExecutor | None = None
) -> list[Row]:
    report = write_synthesis(plan, out, executor or SequentialExecutor())
    assert not report.failures
    return report.rows


def _several(per_sentence: int) -> StudyPlan:
    return PLAN.replace_options(SynthesisOptions, per_sentence=per_sentence)


@pytest.mark.parametrize("per_sentence", [1, 3])
def test_rows_equal_synthesize_triplets(tmp_path: Path, per_sentence: int) -> None:
    out = tmp_path / "triplets.csv"
    rows = _write(out, _several(per_sentence))
    pair = load_model("table:11"), load_model("table:12")
    expected = synthesize_triplets(
        SENTENCES,
        [pair],
        vocabulary=VOCABULARY,
        per_sentence=per_sentence,
        strategy="edit?candidates=all",
        seed=1,
        max_word_share=1,
    )
    assert [row.to_record() for row in rows] == expected.to_dict("records")
    lines = out.read_text("utf-8").splitlines()
    assert lines[0] == ",".join([*TRIPLETS, "repeat", "strategy", "seed"])
    assert len(lines) == len(rows) + 1
    assert {path.name for path in tmp_path.iterdir()} == {out.name, f"{out.name}.meta.json"}
    notes = json.loads((tmp_path / "triplets.csv.meta.json").read_text("utf-8"))["notes"]
    assert notes["seed"] == 1
    assert [model["spec"] for model in notes["models"]] == ["table:11?exact=all", pair[1].spec]
    # The finished file stays, and no task is executed.
    executor, before = RecordingExecutor(), out.read_bytes()
    assert write_synthesis(_several(per_sentence), out, executor).is_up_to_date
    assert executor.submitted == []
    assert out.read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {out.name, f"{out.name}.meta.json"}
    assert _write(None, _several(per_sentence)) == rows


def test_one_contrast_gives_one_row_per_sentence(tmp_path: Path) -> None:
    sides = {"reject": ("table:11",), "accept": ("table:12",)}
    plan = synthesis_plan(SENTENCES, VOCABULARY, models=["table:11", "table:12"], seed=1, **sides)
    rows = _write(tmp_path / "one.csv", plan)
    reject, accept = load_model("table:11"), load_model("table:12")
    proposal = SharedVocabulary(VOCABULARY, (reject, accept))
    for row, sentence in zip(rows, SENTENCES, strict=True):
        result = synthesize(
            sentence,
            reject=reject,
            accept=accept,
            strategy="edit?candidates=all",
            seed=1,
            shared_vocabulary=proposal,
        )
        assert row == SentenceRow.from_result([reject.name], [accept.name], result)


@pytest.mark.parametrize("per_sentence", [1, 3])
def test_interrupted_synthesis_continues_to_equal_bytes(tmp_path: Path, per_sentence: int) -> None:
    plan, whole = _several(per_sentence), tmp_path / "whole.csv"
    every = RecordingExecutor()
    _write(whole, plan, every)
    keys = {task.key for task in every.submitted}
    assert len(keys) == len(every.submitted)
    for stop_after in range(1, len(keys), 3 * per_sentence):
        out = tmp_path / f"stopped{stop_after}.csv"
        first, second = RecordingExecutor(stop_after), RecordingExecutor()
        with pytest.raises(KeyboardInterrupt):
            _write(out, plan, first)
        assert not out.exists()
        _write(out, plan, second)
        # Finished tasks are not repeated.
        assert len(second.submitted) == len(keys) - stop_after
        assert out.read_bytes() == whole.read_bytes()
        assert not (tmp_path / f".{out.name}.run").exists()


def test_interruption_between_table_and_meta_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    _write(whole)
    written = []

    def write(path: Path, text: str) -> None:
        if path.parent == tmp_path and written:
            raise KeyboardInterrupt
        write_atomically(path, text)
        written.extend([path] if path.parent == tmp_path else [])

    with monkeypatch.context() as patch:
        patch.setattr("contstim.pipeline.store.write_atomically", write)
        with pytest.raises(KeyboardInterrupt):
            _write(out)
    _write(out)
    assert out.read_bytes() == whole.read_bytes()
    # Killed while the folder of the work was being removed: the next command removes it.
    work = tmp_path / ".out.csv.run"
    (work / "tasks").mkdir(parents=True)
    _write(out)
    assert not work.exists()


def test_final_rows_are_reported_immediately(tmp_path: Path) -> None:
    executor, shown = RecordingExecutor(), list[tuple[Row, int]]()
    # With a limit on words, rows may change until all are there.
    free = PLAN.replace_options(SynthesisOptions, max_word_share=1.0)

    def stop(row: Row) -> None:
        shown.append((row, executor.n_done))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_synthesis(free, tmp_path / "triplets.csv", executor, stop)
    ((first, done),) = shown
    assert first.natural == SENTENCES[0]
    assert done == 2 + 2  # scores of two models, both ways of the first sentence
    assert (tmp_path / ".triplets.csv.run" / "tasks").is_dir()


CHANGES = {
    "a number": lambda t: re.sub(r"-\d+\.\d+", "-1.5", t, count=1),
    "a sentence": lambda t: t.replace("The dog saw the cat.", "The cat saw the dog."),
    "a row less": lambda t: "".join(t.splitlines(keepends=True)[:-1]),
    "the last byte": lambda t: t[:-1],
    "nothing left": lambda t: "",
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_file_is_not_overwritten(tmp_path: Path, change: str) -> None:
    out = tmp_path / "triplets.csv"
    _write(out)
    out.write_text(CHANGES[change](out.read_text("utf-8")), "utf-8")
    before = out.read_bytes()
    with pytest.raises(InputError) as error:
        _write(out)
    assert str(error.value) == (
        f"{out} has been changed since it was written; undo the change, choose another output, "
        "or remove the file"
    )
    assert out.read_bytes() == before


@pytest.mark.parametrize("meta", [b"", b"[]", b"null", b"3", b'"x"', b"\xff\xfe", b"{"])
def test_damaged_meta_file_is_rejected(tmp_path: Path, meta: bytes) -> None:
    out = tmp_path / "triplets.csv"
    _write(out)
    (tmp_path / "triplets.csv.meta.json").write_bytes(meta)
    with pytest.raises(InputError, match=r"triplets.csv.meta.json beside it cannot be read"):
        _write(out)


def test_file_with_other_settings_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    _write(out)
    before = out.read_bytes()
    with pytest.raises(InputError) as error:
        _write(out, replace(PLAN, study=replace(PLAN.study, seed=2)))
    assert str(error.value) == (
        f"{out} was made with another seed (1, now 2); choose another output, or remove it"
    )
    foreign = tmp_path / "foreign.csv"
    foreign.write_text("a,b\n1,2\n")
    with pytest.raises(
        InputError, match=r"exists, but foreign.csv.meta.json beside it cannot be read"
    ):
        _write(foreign)
    assert out.read_bytes() == before
    assert foreign.read_text() == "a,b\n1,2\n"


def test_settings_contain_every_option() -> None:
    plan = synthesis_plan(SENTENCES, VOCABULARY, models=("table:11", "table:12"))
    others = {
        "strategy": "edit",
        "allocation": "shared",
        "per_pair": 1,
        "per_sentence": 2,
        "minimum_drop": 1.0,
        "pairs": (("table:12", "table:11"),),
        "margin": 1.0,
        "min_scores": ("table:11>=-500",),
        "edits": "max=1",
        "max_word_share": 0.5,
    }

    def settings(plan: StudyPlan) -> tuple[object, str]:
        run = create_run(plan)
        return SYNTHESIS_STAGE.settings(run), SYNTHESIS_STAGE.describe(plan)

    usual = settings(plan)
    for option, value in others.items():
        changed = settings(plan.replace_options(SynthesisOptions, **{option: value}))
        assert changed[0] != usual[0], option
        if option not in ("minimum_drop", "per_sentence"):
            assert changed[1] != usual[1], option
    directed = plan.replace_options(SynthesisOptions, reject=("table:11",), accept=("table:12",))
    assert settings(directed)[0] != usual[0]
    every = {*others, "reject", "accept", "readable"}
    assert every == {field.name for field in fields(SynthesisOptions)}


def test_tasks_depend_on_models_of_their_strategy(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n", "utf-8")
    file = tmp_path / "1.arpa"
    train_ngram(tmp_path / "text.txt", file, order=1, fallback=(0.5, 1.0, 1.5))
    plan = PLAN.replace_options(
        SynthesisOptions, strategy=f"sample?n_prompts=0&writer=ngram:{file}"
    )

    def tasks() -> list[str]:
        job = SYNTHESIS_STAGE.get_job(create_run(plan))
        assert isinstance(job, PooledSynthesisJob)
        return [task.key for task in job.sample_tasks()]

    before = tasks()
    assert before == tasks()
    file.write_text(file.read_text("utf-8") + "\n", "utf-8")
    assert not {*before} & {*tasks()}
    # Models that an earlier run has loaded are not used.
    earlier = load_cached_model(f"ngram:{file}")
    write_synthesis(plan.replace_options(SynthesisOptions, per_pair=1), None, SequentialExecutor())
    assert load_cached_model(f"ngram:{file}") is not earlier


def test_two_processes_cannot_write_one_file(tmp_path: Path) -> None:
    out, refused = tmp_path / "triplets.csv", list[str]()

    def write_too(row: Row) -> None:
        with pytest.raises(LockedError, match=r"triplets.csv is held by process \d+ on .*; wait"):
            _write(out)
        refused.append(row.natural)

    rows = write_synthesis(PLAN, out, SequentialExecutor(), write_too).rows
    assert refused == [row.natural for row in rows]
    assert out.is_file()


def test_pairs_are_distinct_and_have_two_models() -> None:
    pair = ("table:11", "table:12")
    for other in (pair, pair[::-1]):
        with pytest.raises(InputError, match="is listed twice"):
            SynthesisOptions(pairs=(pair, other))
    with pytest.raises(InputError, match="a pair needs two different models, got .table:11"):
        SynthesisOptions(pairs=(("table:11", "table:11"),))
    with pytest.raises(InputError, match=r"the pair \['table:11'\] has 1 models; give two"):
        SynthesisOptions(pairs=(("table:11",),))


@pytest.mark.parametrize("drop", [float("nan"), float("inf")])
def test_minimum_drop_must_be_finite(drop: float) -> None:
    with pytest.raises(InputError, match="minimum.drop"):
        SynthesisOptions(minimum_drop=drop)


def test_unusable_sentences_leave_no_files(tmp_path: Path) -> None:
    out = tmp_path / "triplets.csv"
    for sentence, message in (
        ("The zebra ran.", r"1 of 5 sentences have no score: .*does not know 'zebra'"),
        ("Dog.", "the natural sentence 'Dog.' has one word"),
    ):
        with pytest.raises(InputError, match=message):
            _write(
                out, synthesis_plan([*SENTENCES, sentence], VOCABULARY, ("table:11", "table:12"))
            )
    assert list(tmp_path.iterdir()) == []
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(OutputError, match="^cannot write .*file/t.csv: .*; choose another output$"):
        _write(blocked / "t.csv")


def test_missing_package_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(self: SequentialExecutor, *models: object) -> None:
        raise MissingExtraError("the package is not installed")

    monkeypatch.setattr(SequentialExecutor, "describe_models", without)
    with pytest.raises(MissingExtraError):
        _write(tmp_path / "triplets.csv")
    assert list(tmp_path.iterdir()) == []


def test_failed_syntheses_are_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "triplets.csv"

    def failing(sentence: str, **options: object) -> object:
        if sentence == SENTENCES[1]:
            raise RuntimeError("as the test asked")
        return synthesize(sentence, **options)

    with monkeypatch.context() as patched:
        patched.setattr("contstim.pipeline.tasks.synthesize", failing)
        failed = write_synthesis(PLAN, out, SequentialExecutor()).failures
    assert [task.sentence for task, _ in failed] == [SENTENCES[1]] * 2
    assert failed[0][1] == "RuntimeError: as the test asked"
    assert not out.exists()
    executor = RecordingExecutor()
    rows = _write(out, executor=executor)
    assert len(executor.submitted) == 2
    assert rows == _write(None)
