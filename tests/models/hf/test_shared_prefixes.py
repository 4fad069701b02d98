"""Tree attention: sentences with shared prefixes score as separate sentences.

Tests `contstim.models.hf.token_tree`.
"""

import numpy as np
import pytest
from tiny_transformers import CAUSAL, save_checkpoint

from contstim import load_model
from contstim.models.hf.token_tree import pack_trees

LISTS = [
    "The old dog saw a cat.",
    "The old dog saw a man.",
    "The old dog saw.",
    "The old cat saw a man.",
    "A man ran.",
    "A man ran fast.",
    "The old dog saw a cat fast.",
]


@pytest.mark.parametrize("options", ["", "?words=corrected", "?end=scored"])
@pytest.mark.parametrize("name", CAUSAL)
def test_tree_scores_equal_scores_of_separate_sentences(
    name: str, options: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = save_checkpoint(name, tmp_path_factory.mktemp(name))
    model = load_model(f"hf:{folder}{options}")
    shared = model.tree_log_probs(model.encode(LISTS))
    assert (shared is None) == (name == "mamba")
    together = model.score(LISTS)
    alone = np.array([model.score([sentence])[0] for sentence in LISTS])
    np.testing.assert_allclose(together, alone, atol=1e-4)
    if shared is not None:
        np.testing.assert_allclose([v.sum() for v in shared], alone, atol=1e-4)


def test_trees_contain_each_token_once() -> None:
    sequences = [np.array(s) for s in ([1, 2, 3], [1, 2, 4], [5, 2], [1, 2], [1, 2, 3])]
    (row,) = pack_trees(sequences)
    assert len(row.ids) == 6
    assert sorted(row.sequences) == [0, 1, 2, 3, 4]
    for number, path in zip(row.sequences, row.paths, strict=True):
        assert row.ids[path].tolist() == sequences[number].tolist()
        assert row.depths[path].tolist() == list(range(len(path)))
        # A token sees its own sequence up to itself and nothing else.
        for place, node in enumerate(path):
            assert np.flatnonzero(row.attention_mask[node]).tolist() == sorted(
                path[: place + 1].tolist()
            )
    small = pack_trees(sequences, max_tokens=4)
    assert max(len(row.ids) for row in small) <= 4
    assert sorted(n for row in small for n in row.sequences) == [0, 1, 2, 3, 4]


def test_sentences_with_few_shared_tokens_use_no_trees(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = save_checkpoint("gpt2", tmp_path_factory.mktemp("gpt2"))
    model = load_model(f"hf:{folder}")
    apart = ["The dog ran.", "A cat saw the old woman."]
    assert model.tree_log_probs(model.encode(apart)) is None
