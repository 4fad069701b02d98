"""`check_strategy` accepts all strategies and finds planted faults."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from contstim import check_strategy
from contstim.errors import ValidationError
from contstim.synthesis.beam import Beam
from contstim.synthesis.candidates import Candidates
from contstim.synthesis.coordinate_search import Search
from contstim.synthesis.edit import Edit
from contstim.synthesis.strategy import Strategy

# Sampling needs a model that writes and has tests of its own.
CHECKED = [
    *(Edit("all"), Edit(), Edit(1), Edit(2, first=1), Edit(inputs=40)),
    *(Beam(), Beam(width=16, refine="yes")),
]


@pytest.mark.parametrize("checked", CHECKED, ids=repr)
def test_strategies_pass_check_strategy(checked: Strategy) -> None:
    done = check_strategy(checked)
    assert len(done) == 4 + checked.is_exhaustive


@dataclass(frozen=True)
class _Idle(Strategy):
    def search_word(self, candidates: Candidates) -> bool:
        return False


@dataclass(frozen=True)
class _Overstated(Edit):
    @property
    def is_exhaustive(self) -> bool:
        return True


@dataclass(frozen=True)
class _Remembering(Strategy):
    seen: list[str] = field(default_factory=list, compare=False)

    def search_word(self, candidates: Candidates) -> bool:
        self.seen.append(str(candidates.sentence))
        return len(self.seen) < 20 and Edit("all").search_word(candidates)


class _Plain(Edit):
    """Equal to itself alone, and so without a hash."""

    def __eq__(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True)
class _Forcing(Strategy):
    """Puts the least probable words without asking."""

    def run(self, search: Search) -> bool:
        candidates = search.candidates(0)
        (name, *_) = candidates.definition.reject
        index = int(candidates.replacements[name].score(candidates.find_promising()).argmin())
        word = candidates.words.words[int(candidates.find_promising()[index])]
        search.sentence = search.sentence.replace(0, word)
        search.current_scores = search.score(search.sentence)
        return True

    def search_word(self, candidates: Candidates) -> bool:
        return False


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            _Idle,
            r"_Idle\(\) fails on a pair of models \(all, all\): .* and no other sentence was",
        ),
        (
            lambda: _Overstated(1),
            r"is not optimal although the search is exhaustive: '.*' is better",
        ),
        (_Remembering, r"becomes '.*' a second time"),
        (_Plain, r"is not a dataclass equal to its copy; make it a frozen dataclass"),
        (_Forcing, r"has score -.* under table:\d\?exact=.*, below -"),
    ],
)
def test_check_strategy_rejects_faulty_strategies(
    broken: Callable[[], Strategy], message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        check_strategy(broken())
