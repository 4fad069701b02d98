"""The published studies' specs: they read, and say what the papers say."""

import pytest

from contstim.errors import UnknownNameError
from contstim.models.bundled import bundled_models
from contstim.models.hf.options import (
    CAUSAL_OPTIONS,
    MASKED_OPTIONS,
    CausalOptions,
    MaskedOptions,
    SharedOptions,
)
from contstim.models.presets import METRIC_PRESETS, preset
from contstim.models.spec import ModelSpec


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
    assert len(specs) == 9
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
    assert len(specs) == 4 * 3 + 1


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UnknownNameError) as error:
        preset("golan2032")
    assert str(error.value) == "unknown preset 'golan2032'; did you mean 'golan2023'?"
