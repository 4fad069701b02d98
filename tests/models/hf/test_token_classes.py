"""Classification of vocabularies into word-starting and word-continuing tokens."""

from __future__ import annotations

import pytest
import tokenizers
import transformers

from contstim.models.hf.token_classes import TokenClasses

# All that Python parts words at below 128, a space that is two bytes, and one that is three.
WHITE = [chr(c) for c in (*range(9, 14), *range(28, 33), 0xA0, 0x2003)]
# Byte-level vocabularies write tab, new line, vertical tab, form feed and return with these.
LETTERS = [*"ĉĊċČč"]


def _forms(tokens: list[str]) -> dict[str, bool]:
    """Return of each token of a vocabulary whether it begins a word."""
    vocab = {token: i for i, token in enumerate(["<s>", *tokens])}
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<s>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>")
    forms = TokenClasses.from_tokenizer(tokenizer)
    assert not (forms.is_starting & forms.is_continuing).any()
    return {token: bool(forms.is_starting[vocab[token]]) for token in tokens}


def test_word_starts_in_byte_level_vocabularies() -> None:
    level = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    written = {text: level.pre_tokenize_str(text)[0][0] for text in (*WHITE, *LETTERS, "é", "a")}
    forms = _forms([*("Ġ" + letter for letter in "abcdefgh"), *written.values()])
    assert {text: forms[token] for text, token in written.items()} == {
        text: text in WHITE for text in written
    }


def test_incomplete_characters_are_not_white_space() -> None:
    assert _forms([*("Ġ" + letter for letter in "abc"), "Â", "Âł"])["Â"] is False


@pytest.mark.parametrize("byte", [9, 10, 11, 12, 13, 32, 65, 0xE9])
def test_word_starts_in_vocabularies_with_byte_tokens(byte: int) -> None:
    """Letters are letters where white space is not written by them: č begins no word in Czech."""
    token = f"<0x{byte:02X}>"
    forms = _forms([*("▁" + letter for letter in "abcdefgh"), token, *LETTERS])
    assert forms[token] == (byte <= 32)
    assert not any(forms[letter] for letter in LETTERS)
