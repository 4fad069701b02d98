"""The limit on the share of synthetic sentences that contain the same word."""

from collections import Counter
from pathlib import Path

import pytest
from small_study import synthesis_plan

from contstim import load_model, synthesize_triplets
from contstim.errors import InputError
from contstim.models.registry import FAMILIES, register_family
from contstim.models.toy import RandomBigramModel
from contstim.pipeline.engine import SequentialExecutor
from contstim.pipeline.plan import StudyPlan
from contstim.pipeline.stages import Run
from contstim.pipeline.stages.synthesis import SYNTHESIS_STAGE
from contstim.pipeline.store import RunStore
from contstim.pipeline.synthesis import write_synthesis
from contstim.pipeline.tasks import SynthesisTask
from contstim.pipeline.worker import Worker
from contstim.synthesis.results import Triplet
from contstim.text import WordList
from contstim.text.diversity import folded_words
from contstim.text.languages import ENGLISH
from contstim.text.vocabulary import Vocabulary

LETTERS = "bdfgklmnprs"
LOWER = [a + vowel + b for a in LETTERS for b in LETTERS for vowel in "ao"]
UPPER = [ENGLISH.capitalise(word) for word in LOWER[:60]]
VOCABULARY = Vocabulary(WordList.from_words(UPPER), WordList.from_words(LOWER), frozenset())
# All natural sentences have the first word, so that it may stay frequent.
SENTENCES = [f"{UPPER[0]} {LOWER[i + 1]} {LOWER[i + 60]}." for i in range(10)]


@pytest.fixture(autouse=True)
def _family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, "table", FAMILIES["ngram"])
    register_family(
        "table", "for tests", lambda spec: RandomBigramModel([*LOWER, *UPPER], int(spec.location))
    )


def plan(max_word_share: float) -> StudyPlan:
    return synthesis_plan(
        SENTENCES, VOCABULARY, ("table:11", "table:12"), max_word_share=max_word_share
    )


def synthesized_triplets(max_word_share: float, out: Path | None = None) -> list[Triplet]:
    report = write_synthesis(plan(max_word_share), out, SequentialExecutor())
    assert not report.failures
    return [row for row in report.rows if isinstance(row, Triplet)]


def count_words(rows: list[Triplet]) -> Counter[str]:
    return Counter(
        word for row in rows for text in row.synthetic_sentences for word in {*folded_words(text)}
    )


def test_word_share_is_limited(tmp_path: Path) -> None:
    free, limited = synthesized_triplets(1.0), synthesized_triplets(0.1, tmp_path / "limited.csv")
    assert len(limited) == len(SENTENCES)
    naturally = LOWER[0]
    assert max(n for word, n in count_words(free).items() if word != naturally) > 2
    assert max(n for word, n in count_words(limited).items() if word != naturally) == 2
    # What was within the limit is as before, and all keep what they are asked for.
    assert free[0] == limited[0]
    assert all(row.synthetic_1_lp_1 >= row.natural_lp_1 for row in limited)
    assert all(row.synthetic_1_lp_2 < row.natural_lp_2 for row in limited)
    assert '"n_distinct"' in (tmp_path / "limited.csv.meta.json").read_text()


def test_python_and_command_give_equal_triplets() -> None:
    pair = load_model("table:11"), load_model("table:12")
    for max_word_share in (0.1, 1.0):
        table = synthesize_triplets(
            [*SENTENCES, SENTENCES[0]],
            [pair],
            vocabulary=VOCABULARY,
            strategy="edit?candidates=all",
            max_word_share=max_word_share,
        )
        assert table.to_dict("records") == [
            row.to_record() for row in synthesized_triplets(max_word_share)
        ]
        assert table["synthetic_1"].is_unique or max_word_share == 1.0


def test_other_searches_continue_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = SynthesisTask.execute

    def broken(task: SynthesisTask, worker: Worker) -> dict[str, object]:
        if task.sentence == SENTENCES[1]:
            raise InputError("no")
        return before(task, worker)

    monkeypatch.setattr(SynthesisTask, "execute", broken)
    out = tmp_path / "out.csv"
    failed = write_synthesis(plan(0.1), out, SequentialExecutor()).failures
    assert {task.sentence for task, _ in failed} == {SENTENCES[1]}
    monkeypatch.setattr(SynthesisTask, "execute", before)
    assert synthesized_triplets(0.1, out) == synthesized_triplets(0.1)


def test_shard_has_all_tasks_of_a_pair_with_word_limit(tmp_path: Path) -> None:
    parts = {}
    for limited in (True, False):
        study = plan(0.1 if limited else 1.0)
        run = Run.from_plan(study, RunStore(tmp_path), SequentialExecutor().describe_models)
        syntheses = SYNTHESIS_STAGE.get_job(run)
        (problems,) = syntheses.sentences_by_problems
        parts[limited] = {
            syntheses.create_task(problem, sentence).shard_key
            for problem in problems
            for sentence in SENTENCES
        }
    assert len(parts[True]) == 1
    assert len(parts[False]) == len(SENTENCES)
