"""From a model spec to a model, or to the kind of its scores: families and bundled models, by name.

A family is one of `FAMILIES`, or an entry point of the group ``contstim.models`` in the metadata of
any installed package, which every process of the same Python finds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from contstim.errors import InputError, ModelFileError, SpecError, UnknownNameError, require_known
from contstim.models import ModelSpec
from contstim.models.base import ScoreKind, SentenceModel, check_sentence_language, check_sentences
from contstim.plugins import imported, package_name
from contstim.progress import waiting

if TYPE_CHECKING:
    import pandas as pd

# The family of the bundled models.
_BUNDLED = "contstim"


@dataclass(frozen=True)
class BundledModel:
    """One bundled model: its file, the family that reads it and the options that fit it.

    A model that another package brings has a `converter`, ``module:function``, in place of a file:
    the function gives the path of the file made from that package.
    """

    name: str
    family: str
    file: str
    summary: str
    options: tuple[tuple[str, str], ...]
    converter: str = ""

    def path(self) -> Path:
        """Return where the model's file lies. Raises what the converter raises."""
        if self.converter:
            return cast(Path, imported(self.converter)())
        return bundled_folder() / self.file


def bundled_folder() -> Path:
    """Return the folder of the bundled models: in the installed package, or in the checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "bundled", package.parent / "models" / "bundled"):
        if (folder / "bundled.toml").is_file():
            return folder
    raise ModelFileError("the bundled models are missing from this installation; install it again")


def model_card(model: SentenceModel) -> str | None:
    """Return the card of a model (Markdown), its attribute `card` or a bundled file, or None."""
    name = ModelSpec.parse(model.spec)
    card: str | None = getattr(model, "card", None)
    if card is not None or name.family != _BUNDLED:
        return card
    folder = bundled_folder()
    for cards in (folder / "cards", folder.parent / "cards"):
        path = cards / f"{name.location}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


@cache
def bundled_models() -> dict[str, BundledModel]:
    """Return the bundled models by name, as ``bundled.toml`` lists them."""
    with (bundled_folder() / "bundled.toml").open("rb") as file:
        table = tomllib.load(file)
    return {
        name: BundledModel(
            name,
            entry["family"],
            entry.get("file", ""),
            entry["summary"],
            tuple(sorted(entry.get("options", {}).items())),
            entry.get("converter", ""),
        )
        for name, entry in table.items()
    }


_GROUP = "contstim.models"

Loader = Callable[[ModelSpec], SentenceModel]
Kind = Callable[[ModelSpec], ScoreKind]


@dataclass(frozen=True)
class Family:
    """A model family; see `register_family`. `package` names the one that brings it, if another."""

    name: str
    summary: str
    loader: str | Loader
    kind: ScoreKind | str | Kind | None = None
    package: str = ""

    def load(self, spec: ModelSpec) -> SentenceModel:
        """Load the model that `spec` names."""
        model = self._function(self.loader)(spec)
        if not isinstance(model, SentenceModel):
            maker = f"{self.loader!r} of the package {self.package}"
            if not self.package:
                maker = f"the loader of the model family {self.name!r}"
            raise InputError(
                f"{maker} gives {model!r} for {str(spec)!r}; it must give a SentenceModel"
            )
        return model

    def score_kind(self, spec: ModelSpec) -> ScoreKind:
        """Return what the scores of the model that `spec` names are.

        The model is loaded only if its class leaves that to the single model.
        """
        if isinstance(self.kind, ScoreKind):
            return self.kind
        if self.kind is not None:
            kind: ScoreKind = self._function(self.kind)(spec)
            return kind
        stated = getattr(self._function(self.loader), "kind", None)
        if stated is SentenceModel.kind:
            return ScoreKind()
        return stated if isinstance(stated, ScoreKind) else self.load(spec).kind

    def _function(self, given: str | Callable[[ModelSpec], Any]) -> Callable[[ModelSpec], Any]:
        """Return `given`, or what it is the address of."""
        if not isinstance(given, str):
            return given
        what = f"the model family {self.name!r}"
        return cast("Callable[[ModelSpec], Any]", imported(given, what, self.package))


#: The families that come with contstim, and those that `register_family` added in this process.
FAMILIES: dict[str, Family] = {}


def register_family(
    name: str,
    summary: str,
    loader: str | Loader,
    kind: ScoreKind | str | Kind | None = None,
) -> None:
    """Make specs that begin with ``name:`` load through `loader`.

    Parameters
    ----------
    name
        The family's name, as in specs.
    summary
        One line on what it is, for ``contstim models list``.
    loader
        A function from `ModelSpec` to `SentenceModel`, or its address ``module:function``.
    kind
        What the models' scores are, for tables that name models without loading them; likewise a
        function of a `ModelSpec` or its address, where specs tell. If None, the loader is asked,
        where it is a class that says so, or else a model.

    Examples
    --------
    >>> import contstim
    >>> from contstim.models.toy import RandomBigramModel
    >>> def random_bigram(spec):
    ...     return RandomBigramModel(["a", "b"], seed=int(spec.location))
    ...
    >>> register_family("toy", "a random bigram model of two letters", random_bigram)
    >>> contstim.load_model("toy:1").score(["a b", "b a"]).shape
    (2,)
    """
    FAMILIES[name] = Family(name, summary, loader, kind)


def available_families() -> dict[str, Family]:
    """Return all families by name: `FAMILIES`, and those of installed packages after them."""
    return FAMILIES | {
        entry.name: _brought(entry)
        for entry in entry_points(group=_GROUP)
        if entry.name not in FAMILIES
    }


def _brought(entry: EntryPoint) -> Family:
    """Return the family that an entry point names."""
    package = package_name(entry)
    metadata = None if entry.dist is None else entry.dist.metadata
    summary = metadata["Summary"] if metadata and "Summary" in metadata else "no summary"
    address = f"{entry.module}:{entry.attr}"
    return Family(entry.name, f"{summary} (package {package})", address, package=package)


def _bundled(spec: ModelSpec) -> ModelSpec:
    """Return what ``contstim:NAME`` stands for; options override the bundled ones."""
    models = bundled_models()
    require_known("bundled model", spec.location, models)
    entry = models[spec.location]
    alias = ModelSpec(spec.family, spec.location, entry.options)
    options = {**dict(entry.options), **dict(spec.options)}
    return ModelSpec(entry.family, str(entry.path()), tuple(sorted(options.items())), alias)


def _load_bundled(spec: ModelSpec) -> SentenceModel:
    inner = _bundled(spec)
    return FAMILIES[inner.family].load(inner)


def _bundled_kind(spec: ModelSpec) -> ScoreKind:
    entry = bundled_models().get(spec.location)
    return ScoreKind() if entry is None else FAMILIES[entry.family].score_kind(spec)


register_family(_BUNDLED, "small models that come with contstim", _load_bundled, _bundled_kind)
for _name, _what, _address in (
    ("ngram", "n-gram model in an ARPA file or KenLM binary", "ngram.model:NgramModel"),
    ("rnn", "recurrent network with ReLU units", "recurrent.model:load_recurrent"),
    ("lstm", "LSTM network", "recurrent.model:load_recurrent"),
    ("openai", "causal model behind a server of completions", "engines.server:ServedModel"),
    ("gguf", "causal model in a GGUF file, computed by llama.cpp", "engines.llama:LlamaModel"),
):
    register_family(_name, _what, f"contstim.models.{_address}", ScoreKind())
register_family(
    "hf",
    "causal or masked transformer, a folder or a hub name",
    "contstim.models.hf:load_hf",
    ScoreKind(),
)
register_family(
    "table",
    "scores that something else gave sentences: a CSV with the columns sentence and one of scores",
    "contstim.models.score_table:ScoreTableModel",
    "contstim.models.score_table:ScoreTableModel.kind_of",
)
# Surrounding packages need not be installed.
if find_spec("contstim.training") is not None:
    register_family(
        "student",
        "network that imitates a model's sentence score, from `contstim models distill`",
        "contstim.training.learnt.student:StudentModel",
        "contstim.training.learnt:student_kind",
    )
    register_family(
        "classifier",
        "acceptability classifier, from `contstim models finetune`",
        "contstim.training.learnt.classifier:ClassifierModel",
        "contstim.training.learnt:classifier_kind",
    )


def load_model(spec: str | ModelSpec) -> SentenceModel:
    """Load the model that `spec` names, e.g. ``contstim:trigram`` or ``ngram:my.arpa.gz``.

    ``NAME=SPEC`` gives it a name, by which tables, figures and texts call it.

    Raises
    ------
    SpecError
        If `spec` does not read ``FAMILY:LOCATION?key=value&...`` or has a bad option.
    UnknownNameError
        If there is no such family or bundled model; near matches are named.
    InputError
        If the package that brings the family cannot be imported.
    ModelFileError
        If the model's file is missing or damaged.

    Examples
    --------
    >>> model = load_model("contstim:trigram")
    >>> model.score(["The dog slept.", "The slept dog."]).round(1)
    array([-22.2, -25.5])
    """
    parsed = ModelSpec.parse(spec) if isinstance(spec, str) else spec
    model = _of_spec(parsed)
    if parsed.name:
        model.name = parsed.name
    return model


#: Models or their specs, ``NAME=SPEC`` among them; or of each the name, and itself or its spec.
Models = Sequence[SentenceModel | str] | Mapping[str, SentenceModel | str]


def load_models(models: Models) -> list[SentenceModel]:
    """Load models, each once, of which no two may have one name.

    Raises
    ------
    InputError
        If none is given, two are called alike, or one cannot be loaded, as `load_model` has it.
    """
    if isinstance(models, Mapping):
        models = [_named(name, model) for name, model in models.items()]
    if not models:
        raise InputError("no model is given; name at least one")
    loaded: dict[str, SentenceModel] = {}
    for given in dict.fromkeys(models):
        model = load_model(given) if isinstance(given, str) else given
        other = loaded.setdefault(model.name, model)
        if other.spec != model.spec:
            raise InputError(
                f"two models are called {model.name!r}: {other.spec!r} and {model.spec!r}; give "
                "each a name of its own"
            )
    return list(loaded.values())


def _named(name: str, model: SentenceModel | str) -> SentenceModel | str:
    """Return a model, a copy where it is loaded already, or its spec, with a name."""
    if isinstance(model, str):
        return f"{name}={model}"
    named = copy(model)
    named.name = name
    return named


def _of_spec(parsed: ModelSpec) -> SentenceModel:
    """Load the model that a spec names, without regard to what it is called."""
    family = _family(parsed)
    if family is None:
        raise UnknownNameError.among("model family", parsed.family, available_families())
    without, wanted = _without_reduction(parsed)
    if not wanted:
        return _load(family, without)
    # Most models are loaded without a reduction, and need none of its code.
    from contstim.models.reductions import REDUCTIONS, ReducedModel

    reduction = parsed.get_choice("reduction", REDUCTIONS, "sum")
    subtracts_unigram = REDUCTIONS[reduction].subtracts_unigram
    if "unigram" in wanted and not subtracts_unigram:
        raise SpecError(
            f"unigram= in {str(parsed)!r} goes with reduction=slor alone; leave it out or add that"
        )
    model = _load(family, without)
    if reduction == "sum":
        return model
    if model.event.reduction != "sum":
        raise SpecError(
            f"reduction={reduction} in {str(parsed)!r}: {model.event.reduction!r} scores are no "
            "sums of log-probabilities, which a reduction needs; leave it out"
        )
    unigram = _unigram(parsed, model) if subtracts_unigram else None
    inner = ModelSpec.parse(model.spec)
    options = tuple(sorted([*inner.options, *wanted.items()]))
    whole = ModelSpec(inner.family, inner.location, options)
    return ReducedModel(model, reduction, whole, unigram)


def score_sentences(sentences: Sequence[str], models: SentenceModel | str | Models) -> pd.DataFrame:
    """Score sentences under models: what ``contstim score`` does.

    Parameters
    ----------
    sentences
        The sentences, shape (S,); each is scored once.
    models
        Models, or specs of them, shape (M,); or of each its name, and itself or its spec.

    Returns
    -------
    DataFrame
        Shape (S, M), nats where a model scores log-probabilities: the index is the sentence, a
        column a model, as `select_natural_pairs` and `evaluate` take it.

    Raises
    ------
    InputError
        If no model is given, or a sentence cannot be scored under one.

    Examples
    --------
    >>> sentences = ["The dog slept near the fire.", "The fire slept near the dog."]
    >>> models = {"bigram": "contstim:bigram", "trigram": "contstim:trigram"}
    >>> score_sentences(sentences, models).round(1)
                                  bigram  trigram
    sentence
    The dog slept near the fire.   -38.1    -35.2
    The fire slept near the dog.   -40.0    -40.4
    """
    import pandas as pd  # half a second, which loading a model need not wait for

    loaded = load_models([models] if isinstance(models, SentenceModel | str) else models)
    texts = list(dict.fromkeys(check_sentences(sentences)))
    scores = {model.name: model.score(texts) for model in loaded}
    return pd.DataFrame(scores, index=pd.Index(texts, name="sentence"))


def _load(family: Family, spec: ModelSpec) -> SentenceModel:
    with waiting(f"loading {spec}"):
        return family.load(spec)


def score_kind(spec: str) -> ScoreKind:
    """Return what the scores of the model that `spec` names are, for tables that name models.

    As a rule the model is not loaded. A name that is not a spec, as tables of others have them, a
    family that is not installed and a model whose files are not here count as log-probabilities.
    """
    try:
        parsed = ModelSpec.parse(spec)
    except SpecError:
        return ScoreKind()
    family = _family(parsed)
    try:
        kind = ScoreKind() if family is None else family.score_kind(_without_reduction(parsed)[0])
    except ModelFileError:
        kind = ScoreKind()
    if "reduction" not in dict(parsed.options):
        return kind
    from contstim.models.reductions import REDUCTIONS

    reduction = REDUCTIONS.get(parsed.get("reduction", "sum"))
    return kind if reduction is None else reduction.kind(kind)


def _family(spec: ModelSpec) -> Family | None:
    # Reading the metadata of all packages takes a while.
    return FAMILIES.get(spec.family) or available_families().get(spec.family)


def _without_reduction(spec: ModelSpec) -> tuple[ModelSpec, dict[str, str]]:
    """Split off the options of reductions, which work on any family's parts and are no family's."""
    wanted = {k: v for k, v in spec.options if k in ("reduction", "unigram")}
    own = tuple((k, v) for k, v in spec.options if k not in ("reduction", "unigram"))
    return ModelSpec(spec.family, spec.location, own), wanted


def _unigram(spec: ModelSpec, model: SentenceModel) -> SentenceModel:
    """Load the unigram model that SLOR takes off `model`.

    The one named; else, for models of sub-words, that of their own tokens, and for models of
    words the bundled one, which is made to score what `model` does, in the model's words.
    """
    name = dict(spec.options).get("unigram")
    if name is None:
        if hasattr(model, "token_unigram"):
            of_tokens: SentenceModel = model.token_unigram()
            return of_tokens
        if "unigram" not in bundled_models():
            raise SpecError(
                f"reduction=slor in {str(spec)!r} needs a unigram model; add unigram=SPEC, for "
                "example an ARPA file of order 1"
            )
        asked = {
            ("end", "none"): not _scores_end(model),
            ("language", model.language.code): not model.language.is_space_delimited,
            ("punctuation", "drop"): not _scores_marks(model),
            ("unknown", "unk"): model.event.unknown == "unk",
        }
        options = tuple(option for option, is_asked in asked.items() if is_asked)
        name = str(ModelSpec(_BUNDLED, "unigram", options))
    unigram = load_model(name)
    for option, what, scores in (
        ("end", "the end of a sentence", _scores_end),
        ("punctuation", "marks", _scores_marks),
    ):
        if scores(unigram) != scores(model):
            does, does_not = (model, unigram) if scores(model) else (unigram, model)
            raise SpecError(
                f"{does.spec!r} scores {what} and {does_not.spec!r} does not; set {option}= alike "
                "in both"
            )
    check_sentence_language(unigram, model.language, ())
    return unigram


def _scores_end(model: SentenceModel) -> bool:
    return model.event.end != "none"


def _scores_marks(model: SentenceModel) -> bool:
    return model.event.punctuation not in ("drop", "context")
