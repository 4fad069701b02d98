"""A custom strategy: with ``--strategy`` and its option, in study plans, and in its check."""

import pandas as pd
from small_study import make_study

from contstim import check_strategy
from contstim.synthesis import parse_strategy


def test_custom_strategy(add_extension, run, tmp_path):
    add_extension("best_of_some", "contstim.strategies", "best-of-some = BestOfSome")
    assert len(check_strategy(parse_strategy("best-of-some", draws=5))) == 4
    file = make_study(tmp_path, starts=1)
    sentence = (tmp_path / "natural.txt").read_text("utf-8").splitlines()[0]
    pair = ["--pair", *(f"ngram:{order}.arpa?punctuation=split" for order in (2, 3))]
    words = [*pair, "--vocabulary", "words.csv", "--strategy", "best-of-some?draws=30"]
    ended = run("synthesize", sentence, *words, "--out", "own.csv")
    assert ended.returncode == 0, ended.stderr
    assert len(pd.read_csv("own.csv")) > 0
    plan = file.read_text("utf-8")
    for draws, status in ((0, 2), (7, 0)):
        own = f'strategy = "best-of-some?draws={draws}"'
        file.write_text(plan.replace('strategy = "edit?candidates=all"', own), "utf-8")
        ended = run("run", file, "--stage", "synthesis", "--out", "out", "--executor", "local:1")
        assert ended.returncode == status, ended.stderr
        if status:
            assert ended.stderr.endswith("draws is 0; give at least 1\n")
    assert len(pd.read_csv("out/synthesized.csv")) > 0
