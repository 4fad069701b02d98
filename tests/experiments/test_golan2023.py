"""The published nine models, as the study plan of hub.toml names them.

Tests `contstim.models.hf.options`.
"""

import tomllib
from pathlib import Path

from contstim.models import ModelSpec
from contstim.models.hf.options import CAUSAL_OPTIONS, MASKED_OPTIONS, CausalOptions, MaskedOptions
from contstim.models.registry import bundled_models
from contstim.pipeline.study import read_study_plan

PLAN = Path(__file__).parents[2] / "experiments" / "golan2023" / "hub.toml"


def test_the_nine_models_are_specs_with_the_published_options() -> None:
    specs = list(map(ModelSpec.parse, tomllib.loads(PLAN.read_text("utf-8"))["models"]))
    assert list(map(str, specs)) == list(read_study_plan(PLAN).models)
    gpt, *masked = specs[:5]
    gpt.check_options(CAUSAL_OPTIONS)
    CausalOptions.read(gpt)
    for spec in masked:
        spec.check_options(MASKED_OPTIONS)
        options = MaskedOptions.read(spec)
        assert (options.metric, options.restricted) == ("permutation", True)
        assert options.exact >= 8
    assert masked[1].location == "google/electra-large-generator"
    assert {spec.location for spec in specs[5:]} <= set(bundled_models())
