"""Random checkpoints with real tokenizers, and real sentences, for benchmarks."""

from __future__ import annotations

from pathlib import Path

import tokenizers
import transformers

from contstim.text.vocabulary import bundled_vocabulary

N_PIECES, WIDTH, LAYERS = 8000, 256, 4
POOL = Path(__file__).parents[1] / "contstim" / "data" / "pool.txt"


def sentences(n_words: int, most: int) -> list[str]:
    """Return bundled sentences of `n_words` words."""
    lines = POOL.read_text("utf-8").splitlines()
    return [line for line in lines if len(line.split()) == n_words][:most]


def common_words() -> list[str]:
    """Return the bundled vocabulary's words, most frequent first."""
    vocabulary = bundled_vocabulary()
    words = {*vocabulary.first, *vocabulary.elsewhere}
    return sorted(words, key=lambda word: (-vocabulary.frequencies.get(word, 0.0), word))


def random_bert(folder: Path) -> str:
    """Write a random BERT with 8,000 WordPieces (common words and all letters); return its spec."""
    letters = [chr(c) for c in range(97, 123)] + [chr(c) for c in range(65, 91)]
    marks = list(".,;:!?'\"-")
    endings = ["##s", "##ed", "##ing", "##ly", "##er", "##est", "##ness", "##tion"]
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *marks]
    vocab += ["##" + c for c in letters[:26]] + endings
    vocab = list(dict.fromkeys([*vocab, *common_words()]))[:N_PIECES]
    tokenizer = transformers.BertTokenizer(
        vocab={v: i for i, v in enumerate(vocab)}, do_lower_case=False
    )
    tokenizer.save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=N_PIECES,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=4 * WIDTH,
    )
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    return f"hf:{folder}"


def random_gpt2(folder: Path) -> str:
    """Write a random GPT-2 with the most common words as its 8,000 tokens; return its spec."""
    words = [f"▁{word}" for word in common_words()[: N_PIECES - 3]]
    vocab = {token: i for i, token in enumerate(["<s>", "<unk>", ".", *words])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.Metaspace(), tokenizers.pre_tokenizers.Split(".", "isolated")]
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", unk_token="<unk>"
    )
    tokenizer.save_pretrained(folder)
    config = transformers.GPT2Config(
        vocab_size=N_PIECES, n_embd=WIDTH, n_layer=LAYERS, n_head=4, n_positions=64
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return f"hf:{folder}"
