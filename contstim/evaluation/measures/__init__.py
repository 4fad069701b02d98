"""Measures of how well a model predicts what people answered, by name.

One of your own is a file with an instance of `TrialMean`, or of `Measure`; a package brings it by
an entry point of the group ``contstim.measures``.
"""

from contstim.evaluation.measures.base import Measure, TrialMean
from contstim.plugins import Registry

#: The measures by name.
MEASURES: Registry[Measure] = Registry(
    "measure",
    "contstim.measures",
    {
        "accuracy": "contstim.evaluation.measures.accuracy:ACCURACY",
        "signed_rank_cosine": "contstim.evaluation.measures.cosine:COSINE",
    },
    Measure,
)

__all__ = ["MEASURES", "Measure", "TrialMean"]
