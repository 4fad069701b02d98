"""The public names; a change here changes the interface and needs a changelog entry.

Tests `contstim` and `contstim.lazy`.
"""

import subprocess
import sys

import contstim
import contstim.errors

PUBLIC = {
    "ContstimError",
    "Edits",
    "Evaluation",
    "Event",
    "ScoringCost",
    "Layout",
    "LogitsModel",
    "MinScore",
    "ModelSpec",
    "Problem",
    "ReplacementScores",
    "ScoreKind",
    "Sentence",
    "SentenceModel",
    "TokenScores",
    "Simulation",
    "Strategy",
    "SynthesisResult",
    "SentenceScores",
    "Triplet",
    "Vocabulary",
    "WordList",
    "WordOptions",
    "__version__",
    "bundled_vocabulary",
    "check_design",
    "check_measure",
    "check_model",
    "check_strategy",
    "datasets",
    "design_trials",
    "evaluate",
    "latin_square",
    "load_model",
    "pool",
    "read_choices",
    "read_scores",
    "read_sentences",
    "register_family",
    "sample_sentences",
    "score_sentences",
    "select_natural_pairs",
    "select_set",
    "select_triplets",
    "simulate_choices",
    "standard_deviations",
    "summarize",
    "synthesize",
    "synthesize_triplets",
}


def test_public_names() -> None:
    assert set(contstim.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(contstim, name) is not None
    assert dir(contstim) == sorted(PUBLIC)


def test_errors_inherit_from_contstim_error_and_a_builtin() -> None:
    errors = [item for name, item in vars(contstim.errors).items() if name.endswith("Error")]
    assert len(errors) > 5
    for item in errors:
        if item is not contstim.ContstimError:
            assert issubclass(item, contstim.ContstimError)
            assert any(
                issubclass(item, kind)
                for kind in (ValueError, OSError, ImportError, AssertionError)
            )


# A finder that stands for a machine where torch is not installed.
WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import contstim

for name in contstim.__all__:
    getattr(contstim, name)
"""


def test_package_imports_without_torch() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True)
