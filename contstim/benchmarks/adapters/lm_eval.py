"""Every model of contstim in the lm-evaluation-harness, as its model ``contstim``.

The harness scores what it calls continuations; those of minimal pairs are whole sentences. Of its
own models it has causal ones alone: here are masked, n-gram and diffusion models as well, and
every metric and reduction. It runs its own commands, with the model made known to it:

    python -m contstim.benchmarks.adapters.lm_eval run --model contstim \
        --model_args "spec=hf:bert-base-cased?metric=pll" --tasks blimp

Source: lm-evaluation-harness 0.4.13, ``lm_eval.api.model.LM``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from contstim.errors import InputError
from contstim.models.base import SentenceModel
from contstim.models.registry import load_model


class HarnessModel(LM):
    """A model of contstim as the harness wants it.

    Parameters
    ----------
    spec
        The model, or its spec.
    settings
        What the harness adds of its own, such as a batch size; it makes no difference.

    Raises
    ------
    InputError
        If a task gives a context, or it asks for text to be written.
    """

    def __init__(self, spec: SentenceModel | str, **settings: object) -> None:
        super().__init__()
        self.model = load_model(spec) if isinstance(spec, str) else spec

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Score sentences: of each its score, and that it is not known to be the likeliest one."""
        return [(score, False) for score in self._scores([r.args for r in requests])]

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """Score texts, each as one sentence."""
        return self._scores([("", r.args[0]) for r in requests])

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """Refuse: models of contstim score sentences."""
        raise InputError(
            f"{self.model.name} scores sentences and writes none; choose a task that compares "
            "sentences, such as blimp"
        )

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        for context, sentence in pairs:
            if context.strip():
                raise InputError(
                    f"{self.model.name} scores whole sentences, and the task has the context "
                    f"{context!r} before {sentence!r}; choose a task without one, such as blimp"
                )
        return [float(score) for score in self.model.score([sentence for _, sentence in pairs])]


register_model("contstim")(HarnessModel)

if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
