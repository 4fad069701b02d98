"""Tests `contstim.models` and `contstim.models.registry`."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contstim.errors import InputError, SpecError
from contstim.models import ModelSpec
from contstim.models.registry import load_model, load_models
from contstim.models.score_table import score_sentences

names = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=10)
keys = st.text(st.sampled_from("abcdefgh_"), min_size=1, max_size=6)


@given(names, st.dictionaries(keys, names, max_size=3))
def test_spec_round_trips(location: str, options: dict[str, str]) -> None:
    spec = ModelSpec("hf", location, tuple(sorted(options.items())))
    assert ModelSpec.parse(str(spec)) == spec
    assert str(ModelSpec.parse(str(spec))) == str(spec)


def test_options_are_sorted_in_the_canonical_form() -> None:
    text = "hf:models/bert?reduction=slor&metric=pll-word-l2r&device=cuda:0"
    assert (
        str(ModelSpec.parse(text))
        == "hf:models/bert?device=cuda:0&metric=pll-word-l2r&reduction=slor"
    )


def test_canonical_form_omits_defaults() -> None:
    spec = ModelSpec.parse("ngram:a.arpa?case=lower&end=scored")
    assert str(spec.canonical({"end": "scored", "case": "keep"})) == "ngram:a.arpa?case=lower"


def test_alias_is_shown_instead_of_its_file() -> None:
    alias = ModelSpec("contstim", "trigram", (("punctuation", "split"),))
    options = (("case", "lower"), ("end", "scored"), ("punctuation", "split"))
    spec = ModelSpec("ngram", "some/file.arpa.gz", options, alias)
    assert str(spec) == "contstim:trigram?case=lower&end=scored"
    assert str(spec.canonical({"end": "scored"})) == "contstim:trigram?case=lower"
    # An option that undoes a preset is shown even where it is the family's default.
    plain = ModelSpec("ngram", "some/file.arpa.gz", (("punctuation", "keep"),), alias)
    assert str(plain.canonical({"punctuation": "keep"})) == "contstim:trigram?punctuation=keep"


@pytest.mark.parametrize("text", ["trigram", ":x", "ngram:", "", "ngram:?a=b"])
def test_invalid_specs_are_rejected(text: str) -> None:
    with pytest.raises(SpecError) as error:
        ModelSpec.parse(text)
    assert str(error.value).startswith(
        f"{text!r} is not a model spec; write FAMILY:LOCATION, for example contstim:trigram"
    )


def test_bare_names_get_a_suggestion_of_a_checkpoint() -> None:
    with pytest.raises(SpecError, match="for example contstim:trigram, hf:bert-base-cased$"):
        load_model("bert-base-cased")
    with pytest.raises(SpecError, match="contstim:trigram, BERT=hf:org/bert$"):
        load_model("BERT=org/bert")


def test_specs_that_are_not_utf8_are_rejected() -> None:
    # What Python makes of a command line's byte that is no UTF-8.
    with pytest.raises(SpecError) as error:
        ModelSpec.parse("ngram:\udcff.arpa")
    assert str(error.value) == ("'ngram:\\udcff.arpa' is not UTF-8 text; rename the file")


def test_tilde_in_a_location_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ModelSpec.parse("ngram:~/my.arpa").path == tmp_path / "my.arpa"
    assert ModelSpec.parse("ngram:~nobody-of-this-name/a").path == Path("~nobody-of-this-name/a")


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(SpecError, match="^bad options in 'a:b[?]c'; write [?]key=value&key=value$"):
        ModelSpec.parse("a:b?c")
    repeated = "^option 'c' is repeated in 'a:b[?]c=1&c=2'; write it once$"
    with pytest.raises(SpecError, match=repeated):
        ModelSpec.parse("a:b?c=1&c=2")
    with pytest.raises(
        SpecError, match="^unknown option 'cas' in 'a:b[?]cas=x'; did you mean 'case'[?]$"
    ):
        ModelSpec.parse("a:b?cas=x").check_options(["case", "unknown"])
    with pytest.raises(
        SpecError, match="^case='upper' in 'a:b[?]case=upper': choose one of 'keep', 'low'$"
    ):
        ModelSpec.parse("a:b?case=upper").get_choice("case", ["low", "keep"], "keep")


def test_names_before_a_spec_are_not_part_of_it() -> None:
    named = ModelSpec.parse("GPT-2 (PLL)=hf:gpt2?metric=pll&unigram=contstim:unigram")
    assert named.name == "GPT-2 (PLL)"
    assert named == ModelSpec.parse(str(named))
    assert str(named) == "hf:gpt2?metric=pll&unigram=contstim:unigram"
    assert ModelSpec.parse("ngram:a=b.arpa").name == ""  # the location's own


@pytest.mark.parametrize("text", ["=hf:gpt2", " =hf:gpt2", "a=b=hf:gpt2", "a/b=hf:gpt2", "a=:x"])
def test_ambiguous_names_are_rejected(text: str) -> None:
    with pytest.raises(SpecError) as error:
        ModelSpec.parse(text)
    assert str(error.value) == (
        f"{text!r} has an ambiguous name; write NAME=FAMILY:LOCATION, without = ? / : in NAME"
    )


def test_load_models_with_names() -> None:
    given = {"mine": "contstim:bigram", "other": load_model("contstim:unigram")}
    mine, other = load_models(given)
    assert (mine.name, mine.spec) == ("mine", "contstim:bigram")
    assert (other.name, other.spec) == ("other", "contstim:unigram")
    assert given["other"].name == "contstim:unigram"  # is as it was
    slor = load_model("s=contstim:bigram?reduction=slor")
    assert (slor.name, slor.spec) == ("s", "contstim:bigram?reduction=slor")
    twice = ["a=contstim:bigram", "a=contstim:unigram"]
    with pytest.raises(InputError) as error:
        load_models(twice)
    assert str(error.value) == (
        "two models are called 'a': 'contstim:bigram' and 'contstim:unigram'; give each a "
        "different name"
    )
    assert len(load_models(["contstim:bigram", "contstim:bigram", "contstim:bigram?"])) == 1
    assert score_sentences(["The dog slept."], given).columns.tolist() == ["mine", "other"]
