"""The options of contstim's own strategies, apart from their code: who declares options loads none.

The strategy of another package declares its options itself.
"""

from __future__ import annotations

from contstim.settings import Count, option, settings


@settings
class NoOptions:
    """Options of a strategy that has none."""


@settings
class BoundedOptions:
    """Options of `contstim.search.bounded.Bounded`.

    Attributes
    ----------
    budget
        Most exact scores asked of the model whose scores cost most, at one position of one
        sentence; each other one may be asked for as many times more as its scores cost less,
        128 at most. None: no limit.
    first
        The budget at which a position is left first.
    inputs
        Most that the exact scores of one sentence may cost, in inputs of the models (`Hints.cost`;
        what candidates share is not counted). Candidates for whose score and whose verification
        not enough is left are not scored. By default 25,000, or what 48 scores of the natural
        sentence by all models cost, if that is more. Not looked at without a budget.
    """

    budget: Count | None = option(
        64,
        "exact scores that may be asked, at one position, of the model whose scores cost most",
        metavar="N",
    )
    first: Count = 4
    inputs: Count | None = option(
        None,
        "most that the exact scores of one sentence may cost, in inputs of the networks (default: "
        "25000, or what 48 scores of the natural sentence cost; a score by a left-to-right model "
        "costs one at most, a pll of eight words about eight, a permutation score some hundreds)",
        metavar="N",
    )


@settings
class BeamOptions(BoundedOptions):
    """Options of `contstim.search.beam.Beam`, which has all of the other default as well.

    Attributes
    ----------
    width
        The beginnings kept at each place.
    """

    width: Count = option(48, "beginnings of sentences that are kept at each place", metavar="N")


@settings
class PaperOptions:
    """Options of `contstim.search.paper.Paper`.

    Attributes
    ----------
    threshold, step
        Least log-probability of a candidate given the words before it, and by how much it is
        lowered, nats. The published values.
    at_least
        Fewest candidates that must pass.
    failures
        Exact evaluations without a lower loss that end the search.
    candidates
        The model that sets the threshold: ``causal``, each left-to-right model of the problem; or
        the spec of any left-to-right model.
    """

    threshold: float = -10.0
    step: float = 5.0
    at_least: Count = 10
    failures: Count = 5
    candidates: str = option(
        "causal",
        "the left-to-right model by which improbable candidates are left out (default: each such "
        "model of the two)",
        metavar="SPEC",
    )


#: Contstim's own strategies by name: where the code is, and its options.
OWN_STRATEGIES: dict[str, tuple[str, type]] = {
    "beam": ("contstim.search.beam:Beam", BeamOptions),
    "bounded": ("contstim.search.bounded:Bounded", BoundedOptions),
    "exhaustive": ("contstim.search.exhaustive:Exhaustive", NoOptions),
    "first-improvement": ("contstim.search.first_improvement:FirstImprovement", NoOptions),
    "paper": ("contstim.search.paper:Paper", PaperOptions),
}
