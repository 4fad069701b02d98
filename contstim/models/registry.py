"""From a model spec to a model: the families, by name, loaded when first asked for.

A family is one of `FAMILIES`, or an entry point of the group ``contstim.models`` in the metadata of
any installed package, which every process of the same Python finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from contstim.errors import InputError, SpecError, UnknownNameError
from contstim.models.base import SentenceModel
from contstim.models.bundled import bundled_models
from contstim.models.reductions import REDUCTIONS, ReducedModel
from contstim.models.spec import ModelSpec

__all__ = ["FAMILIES", "Family", "families", "load_model", "register_family"]

_GROUP = "contstim.models"

Loader = Callable[[ModelSpec], SentenceModel]


@dataclass(frozen=True)
class Family:
    """A model family: its name, what it is, and ``module:function`` that loads one."""

    name: str
    summary: str
    loader: str | Loader

    def load(self, spec: ModelSpec) -> SentenceModel:
        """Load the model that `spec` names."""
        if isinstance(self.loader, str):
            module, _, function = self.loader.partition(":")
            return cast(Loader, getattr(import_module(module), function))(spec)
        return self.loader(spec)


#: The families that come with contstim, and those that `register_family` added in this process.
FAMILIES: dict[str, Family] = {}


def register_family(name: str, summary: str, loader: str | Loader) -> None:
    """Make specs that begin with ``name:`` load through `loader`.

    Parameters
    ----------
    name
        The family's name, as in specs.
    summary
        One line on what it is, for ``contstim models list``.
    loader
        A function from `ModelSpec` to `SentenceModel`, or its address ``module:function``.
    """
    FAMILIES[name] = Family(name, summary, loader)


def families() -> dict[str, Family]:
    """Return all families by name: `FAMILIES`, and those of installed packages after them."""
    return FAMILIES | {
        entry.name: Family(entry.name, _summary(entry), _loader(entry))
        for entry in entry_points(group=_GROUP)
        if entry.name not in FAMILIES
    }


def _package(entry: EntryPoint) -> str:
    return "without a name" if entry.dist is None else entry.dist.name


def _summary(entry: EntryPoint) -> str:
    metadata = None if entry.dist is None else entry.dist.metadata
    summary = metadata["Summary"] if metadata and "Summary" in metadata else "no summary"
    return f"{summary} (package {_package(entry)})"


def _loader(entry: EntryPoint) -> Loader:
    """Return what imports the entry point when a model is asked for, and loads the model."""

    def load(spec: ModelSpec) -> SentenceModel:
        try:
            loader = entry.load()
        except Exception as error:  # another's module may raise anything
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"the package {_package(entry)}, which brings the model family {entry.name!r}, "
                f"cannot be imported ({reason}); repair or uninstall it"
            ) from error
        model = loader(spec)
        if not isinstance(model, SentenceModel):
            raise InputError(
                f"{entry.value!r} of the package {_package(entry)} gives {model!r} for "
                f"{str(spec)!r}; it must give a SentenceModel"
            )
        return model

    return load


def _load_bundled(spec: ModelSpec) -> SentenceModel:
    """Load the bundled model that ``contstim:NAME`` names; options override the bundled ones."""
    models = bundled_models()
    if spec.location not in models:
        raise UnknownNameError.among("bundled model", spec.location, models)
    entry = models[spec.location]
    alias = ModelSpec(spec.family, spec.location, entry.options)
    options = {**dict(entry.options), **dict(spec.options)}
    inner = ModelSpec(entry.family, str(entry.path()), tuple(sorted(options.items())), alias)
    return FAMILIES[entry.family].load(inner)


register_family("contstim", "small models that come with contstim", _load_bundled)
register_family(
    "ngram", "n-gram model in an ARPA file or KenLM binary", "contstim.models.ngram:load"
)
register_family("rnn", "recurrent network with ReLU units", "contstim.models.recurrent:load")
register_family("lstm", "LSTM network", "contstim.models.recurrent:load")
register_family(
    "hf", "causal or masked transformer, a folder or a hub name", "contstim.models.hf:load"
)
register_family(
    "student",
    "network that imitates a model's sentence score in one pass, from `contstim models distill`",
    "contstim.models.learnt:load_student",
)
register_family(
    "classifier",
    "acceptability classifier, from `contstim models finetune`",
    "contstim.models.learnt:load_classifier",
)


def load_model(spec: str | ModelSpec) -> SentenceModel:
    """Load the model that `spec` names, e.g. ``contstim:trigram`` or ``ngram:my.arpa.gz``.

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
    """
    parsed = ModelSpec.parse(spec) if isinstance(spec, str) else spec
    # Reading the metadata of all packages takes a while.
    family = FAMILIES.get(parsed.family) or families().get(parsed.family)
    if family is None:
        raise UnknownNameError.among("model family", parsed.family, families())
    # A reduction works on any family's parts, so no family needs to know of it.
    reduction = parsed.choice("reduction", REDUCTIONS, "sum")
    wanted = [(k, v) for k, v in parsed.options if k in ("reduction", "unigram")]
    own = tuple((k, v) for k, v in parsed.options if k not in ("reduction", "unigram"))
    if reduction != "slor" and "unigram" in dict(wanted):
        raise SpecError(
            f"unigram= in {str(parsed)!r} goes with reduction=slor alone; leave it out or add that"
        )
    model = family.load(ModelSpec(parsed.family, parsed.location, own))
    if reduction == "sum":
        return model
    if model.event.reduction != "sum":
        raise SpecError(
            f"reduction={reduction} in {str(parsed)!r}: {model.event.reduction!r} scores are no "
            "sums of log-probabilities, which a reduction needs; leave it out"
        )
    unigram = _unigram(parsed, model) if reduction == "slor" else None
    inner = ModelSpec.parse(model.spec)
    options = tuple(sorted([*inner.options, *wanted]))
    whole = ModelSpec(inner.family, inner.location, options)
    return ReducedModel(model, reduction, whole, unigram)


def _unigram(spec: ModelSpec, model: SentenceModel) -> SentenceModel:
    """Load the unigram model that SLOR takes off `model`.

    The one named; else, for models of sub-words, that of their own tokens, and for models of
    words the bundled one.
    """
    name = dict(spec.options).get("unigram")
    if name is None:
        own = model.own_unigram()
        if own is not None:
            return own
        if "unigram" not in bundled_models():
            raise SpecError(
                f"reduction=slor in {str(spec)!r} needs a unigram model; add unigram=SPEC, for "
                "example an ARPA file of order 1"
            )
        like = {"end": model.event.end == "none", "unknown": model.event.unknown == "unk"}
        options = {"end": "none", "unknown": "unk"}
        asked = tuple((key, options[key]) for key, alike in like.items() if alike)
        name = str(ModelSpec("contstim", "unigram", asked))
    unigram = load_model(name)
    if (unigram.event.end == "none") != (model.event.end == "none"):
        with_end, without = (model, unigram) if unigram.event.end == "none" else (unigram, model)
        raise SpecError(
            f"{with_end.spec!r} scores the end of a sentence and {without.spec!r} does not; set "
            "end= alike in both"
        )
    return unigram
