"""The registry of model families and bundled models, which loads models such as ``hf:gpt2``.

A family, such as ``hf``, is an entry of `FAMILIES`, or an entry point of the group
``contstim.models`` in the metadata of an installed package.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from contstim.errors import InputError, ModelFileError, SpecError, UnknownNameError, require_known
from contstim.models import ModelSpec
from contstim.models.base import ScoreKind, SentenceModel, check_sentence_language
from contstim.models.reductions import REDUCTIONS, ReducedModel
from contstim.plugins import distribution_name, import_object

# Family of the bundled models.
_BUNDLED = "contstim"
_ENTRY_POINT_GROUP = "contstim.models"
# Values of fields of an `Event` that exclude a part of the sentence from the score.
_UNSCORED = {"end": ("none",), "punctuation": ("drop", "context")}

Loader = Callable[[ModelSpec], SentenceModel]
KindFunction = Callable[[ModelSpec], ScoreKind]


@dataclass(frozen=True)
class BundledModel:
    """An entry of ``bundled.toml``, the list of bundled models.

    Attributes
    ----------
    name, family, summary
        Name of the model, name of the family that loads it, and description in one line.
    file
        File name in the folder of the bundled models; empty if there is a converter.
    options
        Options with which the family loads the model, unless the specification overrides them.
    converter
        ``module:function`` that converts a model of another package and returns the path of the
        file; empty for a model with a bundled file.
    """

    name: str
    family: str
    summary: str
    options: tuple[tuple[str, str], ...]
    file: str = ""
    converter: str = ""

    def path(self) -> Path:
        """Return the path of the model's file, converted first if necessary."""
        if self.converter:
            return cast(Path, import_object(self.converter)())
        return bundled_folder() / self.file


def bundled_folder() -> Path:
    """Return the folder of the bundled models, in the installed package or the repository.

    Raises
    ------
    ModelFileError
        If the folder is missing.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "bundled", package.parent / "models" / "bundled"):
        if (folder / "bundled.toml").is_file():
            return folder
    raise ModelFileError("the bundled models are missing; install contstim again")


@cache
def bundled_models() -> dict[str, BundledModel]:
    """Return a mapping from the name of each bundled model to its description."""
    with (bundled_folder() / "bundled.toml").open("rb") as file:
        table = tomllib.load(file)
    # The file has one table of attributes for each model.
    models = {}
    for name, entry in table.items():
        options = tuple(sorted(entry.pop("options", {}).items()))
        models[name] = BundledModel(name=name, options=options, **entry)
    return models


def model_card(model: SentenceModel) -> str | None:
    """Return the model card in Markdown, or None if the model has none.

    The card is the model's attribute `card` or, for a bundled model, a bundled file.
    """
    spec = ModelSpec.parse(model.spec)
    # A model may provide its card, a Markdown text.
    card: str | None = getattr(model, "card", None)
    if card is not None or spec.family != _BUNDLED:
        return card
    # Cards of bundled models are files, next to the models when installed, else in the repository.
    folder = bundled_folder()
    for cards in (folder / "cards", folder.parent / "cards"):
        path = cards / f"{spec.location}.md"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return None


@dataclass(frozen=True)
class Family:
    """A family of models that one function loads.

    Attributes
    ----------
    name
        Name of the family in model specifications.
    summary
        Description in one line.
    loader
        Function that maps a `ModelSpec` to a `SentenceModel`, or its import path
        ``module:function``.
    kind
        Quantity and unit of the scores, or a function that returns them (see `register_family`).
    package
        Name of the package that provides the family; empty for contstim and the running script.
    """

    name: str
    summary: str
    loader: str | Loader
    kind: ScoreKind | str | KindFunction | None = None
    package: str = ""

    def load(self, spec: ModelSpec) -> SentenceModel:
        """Load a model of the family.

        Parameters
        ----------
        spec
            Specification of the model, without the option ``reduction``.

        Raises
        ------
        InputError
            If the function `loader` returns an object that is not a `SentenceModel`.
            Exceptions of the function are not caught.
        """
        model = self._resolve(self.loader)(spec)  # import the loader, and call it
        if not isinstance(model, SentenceModel):
            loader = f"the loader of the model family {self.name!r}"
            if self.package:
                loader = f"{self.loader!r} of the package {self.package}"
            raise InputError(
                f"{loader} returned {model!r} for {str(spec)!r}; it must return a SentenceModel"
            )
        return model

    def score_kind(self, spec: ModelSpec) -> ScoreKind:
        """Return the quantity and unit of a model's scores, if possible without loading it.

        They are determined by the first of these that is available: the attribute `kind` of this
        family, a class attribute of the model class, and the loaded model.
        """
        if isinstance(self.kind, ScoreKind):  # the same kind for all models of the family
            return self.kind
        if self.kind is not None:  # a function of the specification, or its path
            return cast("ScoreKind", self._resolve(self.kind)(spec))
        # If the loader is a model class, its attribute `kind` is a `ScoreKind`, or a property that
        # needs an instance. The property of the base class returns the default.
        class_attribute = getattr(self._resolve(self.loader), "kind", None)
        if isinstance(class_attribute, ScoreKind):
            return class_attribute
        if class_attribute is SentenceModel.kind:
            return ScoreKind()
        return self.load(spec).kind

    def _resolve(self, function: str | Callable[[ModelSpec], Any]) -> Callable[[ModelSpec], Any]:
        """Return a function, and import it if its import path ``module:function`` is given."""
        if not isinstance(function, str):
            return function
        user = f"the model family {self.name!r}"
        return cast("Callable[[ModelSpec], Any]", import_object(function, user, self.package))


#: Families of contstim and those added by `register_family` in this process.
FAMILIES: dict[str, Family] = {}


def register_family(
    name: str,
    summary: str,
    loader: str | Loader,
    kind: ScoreKind | str | KindFunction | None = None,
) -> None:
    """Register a model family, which loads models from specifications ``NAME:LOCATION``.

    Parameters
    ----------
    name
        Name of the family in model specifications.
    summary
        Description in one line, for ``contstim models list``.
    loader
        Function that maps a `ModelSpec` to a `SentenceModel`, or its import path
        ``module:function``.
    kind
        Quantity and unit of the models' scores, which readers of tables need without loading the
        models. Alternatively, a function that maps a `ModelSpec` to a `ScoreKind`, or its path.
        By default, the attribute `kind` of the loader, if it is a class, or of a loaded model.

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
    """Return a mapping from name to model family, including families of installed packages."""
    families = dict(FAMILIES)
    # Installed packages declare further families as entry points. They cannot replace a family of
    # contstim.
    for entry in entry_points(group=_ENTRY_POINT_GROUP):
        if entry.name in FAMILIES:
            continue
        package = distribution_name(entry)
        # Describe the family by the summary of its package.
        metadata = None if entry.dist is None else entry.dist.metadata
        summary = metadata["Summary"] if metadata and "Summary" in metadata else "no summary"
        families[entry.name] = Family(
            entry.name,
            f"{summary} (package {package})",
            f"{entry.module}:{entry.attr}",
            package=package,
        )
    return families


def load_bundled(spec: ModelSpec) -> SentenceModel:
    """Load a bundled model. Options in `spec` override the options of the bundled model."""
    models = bundled_models()
    require_known("bundled model", spec.location, models)
    entry = models[spec.location]
    # The model has default options, which the specification can override.
    options = dict(entry.options) | dict(spec.options)
    # Load the file with its own family. Under the alias, the model keeps its name contstim:NAME.
    alias = ModelSpec(spec.family, spec.location, entry.options)
    file_spec = ModelSpec(entry.family, str(entry.path()), tuple(sorted(options.items())), alias)
    return FAMILIES[entry.family].load(file_spec)


def bundled_kind(spec: ModelSpec) -> ScoreKind:
    """Return the quantity and unit of a bundled model's scores without loading it."""
    entry = bundled_models().get(spec.location)
    return ScoreKind() if entry is None else FAMILIES[entry.family].score_kind(spec)


register_family(_BUNDLED, "small models that come with contstim", load_bundled, bundled_kind)
for _name, _summary, _address in (
    ("ngram", "n-gram model in an ARPA file or KenLM binary", "ngram.model:NgramModel"),
    ("rnn", "recurrent network with ReLU units", "recurrent.model:load_recurrent"),
    ("lstm", "LSTM network", "recurrent.model:load_recurrent"),
    ("openai", "causal model behind a server of completions", "engines.server:ServedModel"),
    ("gguf", "causal model in a GGUF file, computed by llama.cpp", "engines.llama:LlamaModel"),
    ("hf", "causal or masked transformer, a folder or a hub name", "hf:load_hf"),
):
    register_family(_name, _summary, f"contstim.models.{_address}", ScoreKind())
register_family(
    "table",
    "scores from another program: a CSV with the column sentence and a column of scores",
    "contstim.models.table_model:ScoreTableModel",
    "contstim.models.table_model:ScoreTableModel.kind_of",
)
# Training is a surrounding package, which need not be installed.
if find_spec("contstim.training") is not None:
    register_family(
        "student",
        "network that imitates a model's sentence score, from `contstim models distill`",
        "contstim.training.encoders.student:StudentModel",
        "contstim.training.encoders:student_kind",
    )
    register_family(
        "classifier",
        "acceptability classifier, from `contstim models finetune`",
        "contstim.training.encoders.classifier:ClassifierModel",
        "contstim.training.encoders:classifier_kind",
    )


def load_model(spec: str | ModelSpec) -> SentenceModel:
    """Load a model by its specification, for example ``contstim:trigram`` or ``hf:gpt2``.

    Parameters
    ----------
    spec
        Specification ``FAMILY:LOCATION?key=value&...`` of the model. A preceding ``NAME=`` sets the
        display name in tables and figures.

    Returns
    -------
    SentenceModel
        The model, including its reduction.

    Raises
    ------
    SpecError
        If the specification is not of this form or has an invalid option.
    UnknownNameError
        If the family or the bundled model is unknown.
    InputError
        If the package that provides the family cannot be imported.
    ModelFileError
        If the model's file is missing or damaged.

    Examples
    --------
    >>> model = load_model("contstim:trigram")
    >>> model.score(["The dog slept.", "The slept dog."]).round(1)
    array([-22.2, -25.5])
    """
    parsed = ModelSpec.parse(spec) if isinstance(spec, str) else spec
    family = _find_family(parsed)
    if family is None:
        raise UnknownNameError.with_suggestions("model family", parsed.family, available_families())
    # A reduction, for example "mean", is applied to the scores of the model without this option.
    plain_spec, reduction_options = _split_reduction(parsed)
    reduction, needs_unigram = "sum", False
    if reduction_options:
        reduction = parsed.get_choice("reduction", REDUCTIONS, "sum")
        needs_unigram = REDUCTIONS[reduction].subtracts_unigram
        if "unigram" in reduction_options and not needs_unigram:
            raise SpecError(
                f"unigram= in {str(parsed)!r} requires reduction=slor; remove it or add this option"
            )
    model = family.load(plain_spec)
    if reduction != "sum":
        # The object `model.event` defines the score of the model.
        if model.event.reduction != "sum":
            raise SpecError(
                f"reduction={reduction} in {str(parsed)!r}: {model.event.reduction!r} scores are "
                "not sums of log-probabilities, which a reduction needs; remove the option"
            )
        unigram = _load_unigram(parsed, model) if needs_unigram else None
        # Add the options of the reduction to the canonical specification of the model.
        canonical = ModelSpec.parse(model.spec)
        options = tuple(sorted([*canonical.options, *reduction_options.items()]))
        reduced_spec = ModelSpec(canonical.family, canonical.location, options)
        model = ReducedModel(model, reduction, reduced_spec, unigram)
    if parsed.name:
        model.name = parsed.name
    return model


#: Models or their specs (``SPEC`` or ``NAME=SPEC``), or a mapping from names to models or specs.
Models = Sequence[SentenceModel | str] | Mapping[str, SentenceModel | str]


def load_models(models: Models) -> list[SentenceModel]:
    """Load several models. Duplicates are loaded only once, and names must be distinct.

    Parameters
    ----------
    models
        Models or model specifications (``hf:gpt2``), or a mapping from display names to these.

    Returns
    -------
    list of SentenceModel
        The M distinct models, in the order of `models`.

    Raises
    ------
    InputError
        If there are no models, or if two models have the same name; otherwise as `load_model`.
    """
    if isinstance(models, Mapping):
        # Convert a mapping from names to models to a list of models with names.
        named_models: list[SentenceModel | str] = []
        for name, model in models.items():
            if isinstance(model, str):
                named_models.append(f"{name}={model}")
            else:
                renamed = copy(model)
                renamed.name = name
                named_models.append(renamed)
        models = named_models
    if not models:
        raise InputError("no model is given; name at least one")
    # Load each model once. Two different models must not have the same name.
    model_by_name: dict[str, SentenceModel] = {}
    for source in dict.fromkeys(models):
        model = load_model(source) if isinstance(source, str) else source
        same_name = model_by_name.setdefault(model.name, model)
        if same_name.spec != model.spec:
            raise InputError(
                f"two models are called {model.name!r}: {same_name.spec!r} and {model.spec!r}; "
                "give each a different name"
            )
    return list(model_by_name.values())


def score_kind(spec: str) -> ScoreKind:
    """Return the quantity and unit of a model's scores, usually without loading the model.

    Parameters
    ----------
    spec
        Specification of the model, or any other name that stands for a model in a table of scores.
        Scores of models that cannot be loaded are assumed to be log-probabilities in nats.
    """
    try:
        parsed = ModelSpec.parse(spec)
    except SpecError:
        return ScoreKind()  # log-probabilities, the default for names that are no specification
    # Kind of the scores without reduction. A model that cannot be loaded has the default.
    family = _find_family(parsed)
    try:
        kind = ScoreKind() if family is None else family.score_kind(_split_reduction(parsed)[0])
    except ModelFileError:
        kind = ScoreKind()
    # A reduction may change the kind, for example to a log-probability per token.
    if "reduction" not in dict(parsed.options):
        return kind
    reduction = REDUCTIONS.get(parsed.get("reduction", "sum"))
    return kind if reduction is None else reduction.kind(kind)


def _find_family(spec: ModelSpec) -> Family | None:
    """Return the family of a model, or None if it is neither registered nor installed."""
    # Look at other packages last, since reading their metadata is slow.
    return FAMILIES.get(spec.family) or available_families().get(spec.family)


def _split_reduction(spec: ModelSpec) -> tuple[ModelSpec, dict[str, str]]:
    """Separate the options ``reduction`` and ``unigram`` from a model specification.

    Returns
    -------
    plain_spec : ModelSpec
        Specification without these options.
    reduction_options : dict
        Values of the two options, if set, by option.
    """
    reduction_options = {k: v for k, v in spec.options if k in ("reduction", "unigram")}
    options = tuple((k, v) for k, v in spec.options if k not in reduction_options)
    return ModelSpec(spec.family, spec.location, options), reduction_options


def _load_unigram(spec: ModelSpec, model: SentenceModel) -> SentenceModel:
    """Load the unigram model that the reduction SLOR subtracts from the scores of a model.

    The option ``unigram`` of `spec` specifies the unigram model. By default, a unigram model of the
    same tokens is used or, for models of whole words, the bundled unigram model. The end symbol
    must be scored by both models or by neither, and so must punctuation.
    """
    name = dict(spec.options).get("unigram")
    if name is None and hasattr(model, "token_unigram"):
        token_unigram: SentenceModel = model.token_unigram()
        return token_unigram
    if name is None:
        if "unigram" not in bundled_models():
            raise SpecError(
                f"reduction=slor in {str(spec)!r} needs a unigram model; add unigram=SPEC, for "
                "example an ARPA file of order 1"
            )
        # Set the options of the bundled model so that it scores the same parts of a sentence. The
        # object `model.event` states these parts.
        options: dict[str, str] = {}
        if model.event.end in _UNSCORED["end"]:
            options["end"] = "none"
        if not model.language.is_space_delimited:
            options["language"] = model.language.code
        if model.event.punctuation in _UNSCORED["punctuation"]:
            options["punctuation"] = "drop"
        if model.event.unknown == "unk":
            options["unknown"] = "unk"
        name = str(ModelSpec(_BUNDLED, "unigram", tuple(options.items())))
    unigram = load_model(name)
    for option, part in (("end", "the end of a sentence"), ("punctuation", "punctuation")):
        models = model, unigram
        scoring = [m.spec for m in models if getattr(m.event, option) not in _UNSCORED[option]]
        ignoring = [m.spec for m in models if m.spec not in scoring]
        if scoring and ignoring:
            raise SpecError(
                f"{scoring[0]!r} scores {part} and {ignoring[0]!r} does not; set {option}= to the "
                "same value in both"
            )
    check_sentence_language(unigram, model.language, ())
    return unigram
