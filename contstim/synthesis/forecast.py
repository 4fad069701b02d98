"""Forecast the number of triplets, and decide when sampling ends."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from contstim.synthesis.pool import Request, SentencePool, find_fulfillable_requests
from contstim.synthesis.problem import ProblemDefinition

#: Number of rounds of sampling over which an improvement is measured.
WINDOW = 5


def find_stop_reason(
    gains: Sequence[float], min_improvement: float, n_found: int, n_wanted: int, n_expected: int
) -> str | None:
    """Return why sampling should stop after a round, or None if it should continue.

    Sampling stops if no further triplet is expected to be found, and the last `WINDOW` rounds have
    improved the result by at most `min_improvement`.

    Parameters
    ----------
    gains
        Total decrease in loss after each round, in nats.
    min_improvement
        Minimum improvement, as a fraction of the total decrease in loss before the last rounds.
    n_found, n_wanted
        Number of triplets (or of single synthetic sentences) found so far, and number requested.
    n_expected
        Total number of triplets that are expected to be found if sampling continues.
    """
    if n_expected > n_found or len(gains) <= WINDOW:
        return None
    # Continue if the loss decreased enough in the last `WINDOW` rounds.
    if gains[-1] > (1 + min_improvement) * gains[-1 - WINDOW]:
        return None
    # Stop, and state whether too few triplets were found or only the loss no longer improves.
    if n_found < n_wanted:
        return f"none are expected in the next {WINDOW} rounds"
    return f"the last {WINDOW} rounds improved the loss by at most {min_improvement:.0%}"


def count_expected_triplets(
    pool: SentencePool,
    triplets: Sequence[Sequence[Request]],
    growth_factor: float,
    max_triplets: int | None = None,
) -> int:
    """Forecast how many triplets a larger pool of sampled sentences will provide.

    A *request* asks for a synthetic sentence for one natural sentence. A triplet is complete if
    both of its requests receive one. Each sampled sentence can be assigned to one request. It is
    usable for a request if it satisfies the constraints and has a negative loss. The probability
    that request r receives a sentence from the larger pool is estimated as

    - P_r = 1 if the request receives a sentence when the present pool is assigned to as many
      requests as possible, with each sampled sentence used up to `growth_factor` times, since the
      larger pool will contain so many similar sentences. If this factor is not an integer, P_r is
      interpolated between the two neighbouring integers;
    - P_r = 1 - exp(-(growth_factor - 1) n1 / n0) if the request has no usable sentence yet, where
      n0 and n1 are the numbers of requests with no usable sentence and with exactly one (Good
      1953);
    - P_r = 0 otherwise.

    The forecast is the sum of the products of these probabilities over the triplets. Limits on the
    number of similar synthetic sentences are ignored.

    Parameters
    ----------
    pool
        Sentences sampled so far.
    triplets
        Requests of each triplet, or one request for each single synthetic sentence.
    growth_factor
        Size of the larger pool, divided by the size of the present pool; at least 1.
    max_triplets
        Maximum number of triplets for each combination of synthesis problems. None: no maximum.
    """
    requests = list(itertools.chain(*triplets))
    # Whether each sampled sentence can be the synthetic sentence of each request (a natural
    # sentence), shape (requests, sentences). The loss is NaN if it cannot.
    is_usable = pool.is_usable(requests)
    # Find the largest assignment if each sentence, used at most once now, is repeated. Interpolate
    # between the two integers next to the growth factor.
    is_usable = is_usable[:, is_usable.any(axis=0)]
    n_copies, fraction = int(growth_factor), growth_factor % 1
    lower, upper = (
        find_fulfillable_requests(np.repeat(is_usable, n, axis=1)).astype(np.float64)
        for n in (n_copies, n_copies + 1)
    )
    probabilities = (1 - fraction) * lower + fraction * upper
    # Requests without a usable sentence may get one (Good 1953).
    n_usable = is_usable.sum(axis=1)
    n_none, n_one = int((n_usable == 0).sum()), int((n_usable == 1).sum())
    probabilities[n_usable == 0] = 1 - math.exp(-(growth_factor - 1) * n_one / max(1, n_none))
    # A triplet is complete if all of its requests (`group`) receive a sentence: multiply their
    # probabilities, which `islice` takes from the list for all requests.
    by_request: Iterator[float] = iter(probabilities.tolist())
    expected = defaultdict[tuple[ProblemDefinition, ...], float](
        float
    )  # by combination of problems
    for group in triplets:
        problems = tuple(request.problem for request in group)
        expected[problems] += math.prod(itertools.islice(by_request, len(group)))
    return round(sum(min(number, max_triplets or number) for number in expected.values()))


def explain_shortfall(
    pool: SentencePool, triplets: Sequence[Sequence[Request]]
) -> dict[str, float]:
    """Return the median number of sampled sentences that satisfy each constraint.

    For each natural sentence, a synthetic sentence is chosen from a pool of sampled sentences. If
    most natural sentences remain without a synthetic sentence, the constraint that the fewest
    sampled sentences satisfy is the most likely reason.

    Parameters
    ----------
    pool
        Sampled sentences with their scores.
    triplets
        Requests of each triplet, or one request for each single synthetic sentence. A request is a
        natural sentence with the constraints and the loss of a synthetic sentence.

    Returns
    -------
    dict
        Mapping from the text of a constraint, for example ``contstim:gpt>=natural``, to the number
        of sentences that satisfy it, as the median over the requests. The last entry is the number
        of sentences that satisfy all constraints and have a negative loss, that is, improve on the
        natural sentence.
    """
    n_by_constraint, n_usable = defaultdict[str, list[int]](list), list[int]()
    # Count, for each request (natural sentence), the sampled sentences that satisfy each
    # constraint, and those that satisfy all constraints and improve on the natural sentence.
    for request in itertools.chain(*triplets):
        for name, mask in pool.check_constraints(request).items():
            n_by_constraint[name].append(int(mask.sum()))
        n_usable.append(int(pool.is_usable([request]).sum()))
    n_by_constraint["all constraints, with a negative loss"] = n_usable
    return {name: float(np.median(counts)) for name, counts in n_by_constraint.items()}
