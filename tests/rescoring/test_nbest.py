"""Reading n-best lists, and what is refused."""

import json
from pathlib import Path

import pytest
from lists import small, utterance

from contstim.errors import InputError
from contstim.rescoring.nbest import NBest, read_nbest

GOOD = {
    "id": "u1",
    "split": "dev",
    "reference": "he  came\thome",
    "hypotheses": [{"text": "he came", "score": -3}, {"text": "he  came ", "score": -2.5}],
}


def _write(path: Path, *records: object) -> Path:
    lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_a_file_is_read(tmp_path: Path) -> None:
    test = {**GOOD, "id": "u2", "split": "test", "group": "anna", "voice": "not ours"}
    found = read_nbest(_write(tmp_path / "n.jsonl", GOOD, "", test))
    first, second = found.utterances
    assert first.reference == "he came home"
    assert (first.texts, first.scores, first.group) == (("he came",), (-2.5,), "u1")
    assert second.group == "anna"
    assert found.part("test") == (second,)
    assert found.texts == ("he came",)
    assert found.shared_references == 1


FAULTS = {
    "{": "this is not JSON",
    '"u1"': 'this is "u1", not an object',
    json.dumps({**GOOD, "id": 3}): "'id' of an utterance is 3, not text; put it in quotes",
    json.dumps({**GOOD, "reference": "a \ud83d"}): (
        r"'reference' of the utterance 'u1' is 'a \ud83d', which holds half of a character; write"
    ),
    json.dumps({**GOOD, "split": "train"}): "the utterance 'u1' has the split 'train'",
    json.dumps({**GOOD, "reference": None}): "the utterance 'u1' has no 'reference'; add it",
    json.dumps({**GOOD, "reference": "  "}): "'reference' of the utterance 'u1' is empty",
    json.dumps({**GOOD, "hypotheses": []}): "the utterance 'u1' has no list of 'hypotheses'",
    json.dumps({**GOOD, "hypotheses": ["he came"]}): "hypothesis 1 of the utterance 'u1' is",
    json.dumps({**GOOD, "hypotheses": [{"text": "", "score": 1}]}): "'text' of hypothesis 1 of the "
    "utterance 'u1' is empty",
    json.dumps({**GOOD, "hypotheses": [{"text": "he"}]}): "hypothesis 1 of the utterance 'u1' has "
    "no 'score'",
    json.dumps({**GOOD, "hypotheses": [{"text": "he", "score": "-1"}]}): 'is "-1", not a number',
    json.dumps({**GOOD, "hypotheses": [{"text": "he", "score": True}]}): "is true, not a number",
    json.dumps({**GOOD, "hypotheses": [{"text": "he", "score": float("nan")}]}): "is NaN; give a",
    json.dumps({**GOOD, "hypotheses": [{"text": "he", "score": 10**400}]}): "give a finite number",
}


@pytest.mark.parametrize("line", FAULTS)
def test_faults_are_named_with_their_line(line: str, tmp_path: Path) -> None:
    path = _write(tmp_path / "n.jsonl", {**GOOD, "id": "u0"}, line)
    with pytest.raises(InputError) as caught:
        read_nbest(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert FAULTS[line] in str(caught.value)


def test_a_file_without_utterances_or_parts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no utterance"):
        read_nbest(_write(tmp_path / "empty.jsonl", ""))
    with pytest.raises(InputError, match="no utterance has the split 'test'"):
        read_nbest(_write(tmp_path / "dev.jsonl", GOOD))
    with pytest.raises(InputError, match="no utterance has the split 'dev'"):
        read_nbest(_write(tmp_path / "test.jsonl", {**GOOD, "split": "test"}))


def test_nothing_stands_in_both_parts() -> None:
    listed = small().utterances
    again = utterance("u0", "a b", {"a b": 0.0}, "test")
    with pytest.raises(InputError, match="'u0' stands in both parts"):
        NBest((*listed, again))
    with pytest.raises(InputError, match="'u1' stands twice in the part dev"):
        NBest((*listed, listed[1]))
    one = utterance("v1", "a b", {"a b": 0.0}, "dev", "anna")
    other = utterance("v2", "c d", {"c d": 0.0}, "test", "anna")
    with pytest.raises(InputError, match="the group 'anna' stands in both parts"):
        NBest((*listed, one, other))
