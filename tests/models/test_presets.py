"""The published studies' specs: they read, and say what the papers say."""

import pytest

from contstim.errors import UnknownNameError
from contstim.models import ModelSpec
from contstim.models.hf.checkpoint import (
    CAUSAL_OPTIONS,
    MASKED_OPTIONS,
    CausalOptions,
    MaskedOptions,
    SharedOptions,
)
from contstim.models.presets import METRIC_PRESETS, preset
from contstim.models.registry import bundled_models

#: The masked models of Kauf & Ivanova (2023).
MASKED = {
    "google-bert/bert-base-cased",
    "google-bert/bert-large-cased",
    "FacebookAI/roberta-base",
    "FacebookAI/roberta-large",
}


@pytest.mark.parametrize("name", METRIC_PRESETS)
def test_specs_read_and_round_trip(name: str) -> None:
    for model in preset(name).models:
        spec = ModelSpec.parse(model.spec)
        assert str(spec) == model.spec
        if spec.family != "hf":
            assert model.revision == ""
            continue
        assert spec.get("revision", "") == model.revision == "main"
        assert spec.location == model.checkpoint
        SharedOptions.read(spec)
        if "gpt2" in spec.location:
            spec.check_options(CAUSAL_OPTIONS)
            CausalOptions.read(spec)
        else:
            spec.check_options(MASKED_OPTIONS)
            MaskedOptions.read(spec)


def test_golan2023_has_the_nine_models() -> None:
    specs = preset("golan2023").specs
    assert list(specs) == [
        *("GPT-2", "RoBERTa", "ELECTRA", "BERT", "XLM", "LSTM", "RNN", "3-gram", "2-gram")
    ]
    for name in ("RoBERTa", "ELECTRA", "BERT", "XLM"):
        options = MaskedOptions.read(ModelSpec.parse(specs[name]))
        assert (options.metric, options.restricted) == ("permutation", True)
        assert options.exact >= 8
    assert specs["ELECTRA"].startswith("hf:google/electra-large-generator?")
    bundled = {ModelSpec.parse(s).location for s in specs.values() if s.startswith("contstim:")}
    assert bundled >= set(bundled_models()) & {"bigram", "trigram", "rnn", "lstm"}


def test_kauf2023_has_three_metrics_a_model() -> None:
    specs = preset("kauf2023").specs
    assert specs["BERT (base), pll-whole-word"] == (
        "hf:google-bert/bert-base-cased?metric=pll-whole-word&revision=main"
    )
    # Every masked model under every metric, by the name it has in the tables, and one causal one.
    by_metric: dict[str, set[str]] = {}
    for name, spec in specs.items():
        parsed = ModelSpec.parse(spec)
        by_metric.setdefault(parsed.get("metric", "chain"), set()).add(parsed.location)
        assert name.endswith(parsed.get("metric", "GPT2-medium"))
    assert by_metric.pop("chain") == {"openai-community/gpt2-medium"}
    assert set(by_metric) == {"pll", "pll-word-l2r", "pll-whole-word"}
    assert all(locations == MASKED for locations in by_metric.values())


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UnknownNameError) as error:
        preset("golan2032")
    assert str(error.value) == "unknown preset 'golan2032'; did you mean 'golan2023'?"
