"""Searches with an engine: candidates together, each once, and within a budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_engines import BOS, Fake

from contstim.cli import main
from contstim.models.registry import load_model
from contstim.synthesis import synthesize
from contstim.synthesis.results import Synthesis
from contstim.text import WordList
from contstim.text.vocabulary import Vocabulary

Tiny = Callable[[str], Path]
WORDS = ["dog", "cat", "dogs", "old", "saw", "ran", "fast", "the", "man", "woman", "bark", "us"]
MORE = ["barks", "barked", "slowly", "don't", "unhappy", "we", "them", "here", "a", "cats"]
SENTENCE = "the dog saw us"


@pytest.fixture
def vocabulary() -> Vocabulary:
    words = WordList.of([*WORDS, *MORE])
    return Vocabulary(words, words)


def _search(spec: str, tiny: Tiny, vocabulary: Vocabulary) -> Synthesis:
    """Search with an engine that rejects, of which nothing is known without asking."""
    accept = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    return synthesize(
        SENTENCE,
        reject=load_model(spec),
        accept=accept,
        vocabulary=vocabulary,
        strategy="exhaustive",
    )


def _texts(fake: Fake) -> list[str]:
    return [text for texts in fake.asked for text in texts]


@pytest.mark.parametrize("protocol", ["openai", "vllm", "sglang"])
def test_an_engine_accepts_or_rejects(
    fake: Fake, tiny: Tiny, vocabulary: Vocabulary, protocol: str
) -> None:
    engine = load_model(f"{fake.reset(protocol).spec}&prefix={BOS}")
    here = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    for reject, accept in ((engine, here), (here, engine)):
        result = synthesize(SENTENCE, reject=reject, accept=accept, vocabulary=vocabulary)
        before, after = accept.score([SENTENCE, result.sentence])
        assert after >= before
        assert result.loss < 0


def test_candidates_are_sent_together_and_each_once(
    fake: Fake, tiny: Tiny, vocabulary: Vocabulary
) -> None:
    result = _search(f"{fake.spec}&prefix={BOS}", tiny, vocabulary)
    assert result.finished
    asked = fake.asked[8:]  # after it was tried
    texts = [text for request in asked for text in request]
    assert max(Counter(texts).values()) == 1
    assert all(request == sorted(request) for request in asked)
    # The natural sentence alone, and at each place the candidates that the other model leaves.
    assert len(texts) > 30
    assert len(asked) < len(texts) / 3


def test_a_budget_ends_a_search_with_what_there_is(
    fake: Fake, tiny: Tiny, vocabulary: Vocabulary, tmp_path: Path
) -> None:
    spec = f"{fake.spec}&prefix={BOS}&batch=4"
    whole = _search(spec, tiny, vocabulary)
    n_whole = len(fake.requests)
    fake.requests.clear()
    spec += f"&answers={tmp_path}"
    results = []
    while not results or results[-1].stopped:
        results.append(_search(f"{spec}&requests=12", tiny, vocabulary))
    assert len(results) > 2
    first, *_, last = results
    assert "requests=12 is all it may" in first.stopped
    assert not first.finished
    accept = load_model(f"hf:{tiny('gpt2')}?prefix=none")
    before, after = accept.score([SENTENCE, first.sentence])
    assert after >= before
    assert whole.loss <= first.loss <= 0
    assert (last.sentence, last.scores, last.steps) == (whole.sentence, whole.scores, whole.steps)
    # Nothing was asked twice but whether it is the same engine still.
    counts = Counter(_texts(fake))
    tried = {text for texts in fake.asked[:3] for text in texts}
    assert {text for text, count in counts.items() if count > 1} <= tried
    assert len(fake.requests) == n_whole + len(results) - 1


def test_a_command_goes_on_with_another_budget(
    fake: Fake, tiny: Tiny, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.txt").write_text("\n".join([*WORDS, *map(str.capitalize, WORDS)]), "utf-8")
    (tmp_path / "natural.txt").write_text(f"{SENTENCE.capitalize()}\nThe old man ran\n", "utf-8")

    def run(options: str, out: str) -> int:
        models = [f"{fake.spec}&prefix={BOS}{options}", f"hf:{tiny('gpt2')}?prefix=none"]
        files = {"--sentences": "natural.txt", "--vocabulary": "words.txt", "--out": out}
        paths = [part for k, v in files.items() for part in (k, str(tmp_path / v))]
        return main(["synthesize", "--reject", models[0], "--accept", models[1], *paths])

    assert run("", "whole.csv") == 0
    fake.requests.clear()
    capsys.readouterr()
    status = [run(f"&answers={tmp_path}/answers&requests={n}", "some.csv") for n in (12, 100)]
    assert status == [1, 0]
    assert "requests=12 is all it may; what it answered counts" in capsys.readouterr().err
    assert (tmp_path / "some.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    counts = Counter(_texts(fake))
    tried = {text for texts in fake.asked[:3] for text in texts}
    assert {text for text, count in counts.items() if count > 1} <= tried
