"""Sentence models: the contract, its families, and the registry of specs.

Here: how a model is named, ``FAMILY:LOCATION?key=value&...`` as a frozen value that round-trips,
and ``NAME=`` before it for what tables are to call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from contstim.errors import SpecError, near_matches

_PATH_SAFE = "/:\\~.-_ @+,"
_VALUE_SAFE = "/:-_.,+"


@dataclass(frozen=True)
class ModelSpec:
    """A parsed spec; ``str`` gives its canonical form, with options in alphabetical order.

    Attributes
    ----------
    family
        The part before the first colon, e.g. ``ngram``.
    location
        A path or a name within the family, percent-decoded.
    options
        Sorted (key, value) pairs.
    alias
        The shorter name that led here (a spec whose options are presets), shown in its place: a
        bundled model goes by its name wherever its file lies.
    name
        What tables and figures call the model, where that was said; no part of the spec.

    Examples
    --------
    >>> spec = ModelSpec.parse("hf:roberta-base?metric=pll")
    >>> spec.family, spec.location, spec.options
    ('hf', 'roberta-base', (('metric', 'pll'),))
    """

    family: str
    location: str
    options: tuple[tuple[str, str], ...] = ()
    alias: ModelSpec | None = field(default=None, compare=False, repr=False)
    name: str = field(default="", compare=False)

    @classmethod
    def parse(cls, text: str) -> ModelSpec:
        """Read a spec, or NAME=SPEC: a name ends at an equals sign before the first colon.

        Raises
        ------
        SpecError
            If family or location is missing, a name is empty or holds ``=``, ``?`` or ``/``, the
            location holds a NUL character, an option has
            no ``=`` or comes twice, or bytes are no UTF-8 text.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SpecError(f"{text!r} is not UTF-8 text; rename the file it names") from error
        name, spec = split_name(text)
        family, colon, rest = spec.partition(":")
        path, _, query = rest.partition("?")
        if not colon or not family or not path:
            name_part, equals, location = text.rpartition("=")
            on_hub = "" if colon or not location else f", {name_part + equals}hf:{location}"
            raise SpecError(
                f"{text!r} is not a model spec; write FAMILY:LOCATION, for example "
                f"contstim:trigram{on_hub}"
            )
        try:
            pairs = parse_qsl(
                query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query)
            )
        except ValueError as error:
            raise SpecError(f"bad options in {text!r}; write ?key=value&key=value") from error
        if "\0" in unquote(path):
            raise SpecError(f"{text!r} holds a NUL character (%00), which no name can hold")
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise SpecError(f"option {key!r} is given twice in {text!r}")
        return cls(family, unquote(path), tuple(sorted(pairs)), name=name)

    @property
    def path(self) -> Path:
        """The location as a path; ``~`` is the user's home folder."""
        path = Path(self.location)
        try:
            return path.expanduser()
        except RuntimeError:  # the home of nobody
            return path

    def __str__(self) -> str:
        if self.alias is not None:
            return str(self.canonical({}))
        text = f"{self.family}:{quote(self.location, safe=_PATH_SAFE)}"
        if self.options:
            pairs = (f"{k}={quote(v, safe=_VALUE_SAFE)}" for k, v in sorted(self.options))
            text += "?" + "&".join(pairs)
        return text

    def get(self, key: str, default: str) -> str:
        """Return the value of option `key`, or `default`."""
        return dict(self.options).get(key, default)

    def get_choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """Return option `key`, which must be one of `choices`."""
        value = self.get(key, default)
        offered = list(choices)
        if value not in offered:
            raise SpecError(f"{key}={value!r} in {str(self)!r}: {near_matches(value, offered)}")
        return value

    def check_options(self, allowed: Iterable[str]) -> None:
        """Refuse options that are not `allowed`."""
        offered = list(allowed)
        for key, _ in self.options:
            if key not in offered:
                raise SpecError(
                    f"unknown option {key!r} in {str(self)!r}; {near_matches(key, offered)}"
                )

    def canonical(self, defaults: Mapping[str, str]) -> ModelSpec:
        """Return the spec to show: no alias any more, no option that is the default anyway."""
        shown = self if self.alias is None else self.alias
        usual = {**defaults, **({} if self.alias is None else dict(self.alias.options))}
        kept = tuple((k, v) for k, v in sorted(self.options) if usual.get(k) != v)
        return ModelSpec(shown.family, shown.location, kept)


def split_name(text: str) -> tuple[str, str]:
    """Return the name of ``NAME=SPEC``, empty where there is none, and the spec.

    The name is what stands before an equals sign that comes before the first colon: those of a
    spec's options come after it.

    Raises
    ------
    SpecError
        If the name is empty, or it is not clear where it ends.
    """
    named, colon, rest = text.partition(":")
    name, equals, family = named.partition("=")
    if not (equals and colon):
        return "", text
    if not name.strip() or not family or any(sign in named for sign in "?/") or "=" in family:
        raise SpecError(
            f"{text!r} does not say which part is the name; write NAME=FAMILY:LOCATION, with none "
            "of = ? / : in NAME"
        )
    return name.strip(), family + colon + rest
