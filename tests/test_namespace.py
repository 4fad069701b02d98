"""The public names, pinned: a change here changes the interface and wants a changelog entry."""

import subprocess
import sys

import contstim
import contstim.errors

PUBLIC = {
    "ContstimError",
    "Evaluation",
    "Event",
    "ModelPair",
    "ModelSpec",
    "Replacements",
    "Sentence",
    "SentenceModel",
    "SentenceParts",
    "Synthesis",
    "Totals",
    "Triplet",
    "Vocabulary",
    "WordList",
    "__version__",
    "bundled_vocabulary",
    "check_design",
    "check_model",
    "design_trials",
    "evaluate",
    "load_model",
    "plan_design",
    "pool",
    "read_choices",
    "read_scores",
    "read_sentences",
    "register_family",
    "sample_sentences",
    "select_natural_pairs",
    "select_triplets",
    "synthesize",
    "triplets",
}


def test_the_public_names() -> None:
    assert set(contstim.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(contstim, name) is not None
    assert dir(contstim) == sorted(PUBLIC)


def test_every_error_descends_from_the_root_and_a_built_in() -> None:
    for name in contstim.errors.__all__:
        item = getattr(contstim.errors, name)
        if isinstance(item, type) and item is not contstim.ContstimError:
            assert issubclass(item, contstim.ContstimError)
            assert any(
                issubclass(item, kind)
                for kind in (ValueError, OSError, ImportError, AssertionError)
            )


def test_the_package_imports_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; import contstim; "
        "contstim.load_model, contstim.synthesize, contstim.check_model, contstim.evaluate, "
        "contstim.select_natural_pairs, contstim.design_trials"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
