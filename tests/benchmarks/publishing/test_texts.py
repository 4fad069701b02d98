"""Of which source sentences are, and what is published of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from folders import ABOUT, texts_of, write_all

from contstim.benchmarks.publishing.about import read_about
from contstim.benchmarks.publishing.texts import (
    SourcedTexts,
    is_digest,
    read_withheld,
    sentence_digest,
)
from contstim.cli import main
from contstim.errors import InputError


@pytest.fixture
def texts(tmp_path: Path) -> SourcedTexts:
    (tmp_path / "about.toml").write_text(ABOUT, "utf-8")
    (tmp_path / "licensed.txt").write_text("He slept  well.\nShe ran\n", "utf-8")
    return SourcedTexts.read(read_about(tmp_path / "about.toml"), tmp_path)


def test_sentences_are_recognised_whatever_their_spaces_and_period(texts: SourcedTexts) -> None:
    for sentence in ("He slept well.", " He  slept well", "She ran.", "She ran"):
        assert texts.source_of(sentence).name == "licensed"
        assert is_digest(texts.published(sentence))
        assert is_digest(texts.within(sentence))
    assert texts.published("They sat.") == "They sat."
    assert texts.within("m1") == "m1"


def test_what_must_not_be_published_wins(tmp_path: Path, texts: SourcedTexts) -> None:
    about = read_about(tmp_path / "about.toml")
    (tmp_path / "free.txt").write_text("He slept well.\nThey sat.\n", "utf-8")
    free = replace(about.texts[1], file="free.txt")
    both = SourcedTexts.read(replace(about, texts=(free, about.texts[0])), tmp_path)
    assert both.withheld("He slept well.")
    assert not both.withheld("They sat.")
    with pytest.raises(InputError, match=r"no source of \[\[texts\]\] lists 'Go home.'"):
        both.source_of("Go home.")


def test_files_that_hold_a_withheld_sentence_are_refused(texts: SourcedTexts) -> None:
    with pytest.raises(InputError, match="b.md would hold a sentence of the source 'licensed'"):
        texts.check(["He slept well."], {"a.md": b"fine", "b.md": b"as in He slept\nwell, say"})


@pytest.mark.parametrize(
    "written",
    [
        '{"shown": "as in She said \\"don\'t\\" and left."}',
        '1,"as in She said ""don\'t"" and left."',
        "<p>She said &#34;don&#39;t&#34; and left.</p>",
        "SHE SAID DON'T AND LEFT",
    ],
)
def test_a_withheld_sentence_is_found_however_it_is_written(tmp_path: Path, written: str) -> None:
    sentence = 'She said "don\'t" and left.'
    (tmp_path / "about.toml").write_text(ABOUT, "utf-8")
    (tmp_path / "licensed.txt").write_text(sentence + "\n", "utf-8")
    texts = SourcedTexts.read(read_about(tmp_path / "about.toml"), tmp_path)
    with pytest.raises(InputError, match="b would hold a sentence of the source 'licensed'"):
        texts.check([sentence], {"a": b"She said nothing and left.", "b": written.encode()})


def test_digests_are_those_of_single_spaced_utf8(tmp_path: Path) -> None:
    import hashlib

    wanted = hashlib.sha256("Où est-il ?".encode()).hexdigest()
    assert sentence_digest(" Où  est-il ?") == f"sha256:{wanted}"
    (tmp_path / "pairs.csv").write_text("sentence_1,sentence_2\nA b.,C d.\n", "utf-8")
    assert [*read_withheld(tmp_path / "pairs.csv").values()] == ["A b.", "C d."]


def test_a_licensed_pool_publishes_no_sentence_of_it(tmp_path: Path) -> None:
    write_all(tmp_path, secret=10)  # every first sentence
    command = ["publish", str(tmp_path / "choices.csv"), "--about", str(tmp_path / "about.toml")]
    command += ["--scores", str(tmp_path / "scores.csv"), "--out", str(tmp_path / "out")]
    assert main(command) == 0
    out = tmp_path / "out"
    assert not any("old men walked" in text for text in texts_of(out).values())
    assert not (out / "lm_eval").exists()  # no pair has both texts
