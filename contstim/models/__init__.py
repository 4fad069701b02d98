"""Sentence models: the interface, the families of models, and the registry that loads them.

This module defines the specification (*spec*) of a model, a string of the form
``FAMILY:LOCATION?key=value&...``, for example ``hf:gpt2``. It can be preceded by a display name, as
in ``GPT-2=hf:gpt2``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote

from contstim.errors import SpecError, suggest_names

_SAFE_IN_PATH = "/:\\~.-_ @+,"
_SAFE_IN_VALUE = "/:-_.,+"


@dataclass(frozen=True)
class ModelSpec:
    """Parsed specification of a model, ``FAMILY:LOCATION?key=value&...``.

    ``str(spec)`` is the canonical text, with the options in alphabetical order.

    Attributes
    ----------
    family
        Name of the model family, for example ``ngram``.
    location
        Path or name of the model within its family, percent-decoded.
    options
        Pairs of an option and its value, sorted by option.
    alias
        Specification of a bundled model, for example ``contstim:gpt``. ``str(spec)`` shows it in
        place of the path of the model's file, which depends on the machine, and adds only options
        with other values than in the alias.
    name
        Display name of the model in tables and figures; empty if it has none. The text does not
        include it.

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
        """Parse ``SPEC`` or ``NAME=SPEC``.

        Parameters
        ----------
        text
            Specification of a model, optionally with a display name.

        Returns
        -------
        ModelSpec
            Parsed specification, with options sorted and percent-decoded.

        Raises
        ------
        SpecError
            If the family or the location is missing, the location contains a NUL character, an
            option is malformed or repeated, the name is ambiguous, or the text is not valid UTF-8.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SpecError(f"{text!r} is not UTF-8 text; rename the file") from error
        # [NAME=]FAMILY:LOCATION[?key=value&...]
        name, spec = split_name(text)
        family, colon, address = spec.partition(":")
        location, _, query = address.partition("?")
        if not colon or not family or not location:
            # Suggest hf:NAME for a text such as "gpt2" or "GPT-2=gpt2".
            prefix, equals, bare_name = text.rpartition("=")
            suggestion = "" if colon or not bare_name else f", {prefix + equals}hf:{bare_name}"
            raise SpecError(
                f"{text!r} is not a model spec; write FAMILY:LOCATION, for example "
                f"contstim:trigram{suggestion}"
            )
        try:
            options = parse_qsl(
                query.replace("+", "%2B"), keep_blank_values=True, strict_parsing=bool(query)
            )
        except ValueError as error:
            raise SpecError(f"bad options in {text!r}; write ?key=value&key=value") from error
        if "\0" in unquote(location):
            raise SpecError(f"{text!r} contains a NUL character (%00); correct the location")
        keys = [key for key, _ in options]
        for key in keys:
            if keys.count(key) > 1:
                raise SpecError(f"option {key!r} is repeated in {text!r}; write it once")
        return cls(family, unquote(location), tuple(sorted(options)), name=name)

    @property
    def path(self) -> Path:
        """The location as a path, with ``~`` expanded to the home folder."""
        path = Path(self.location)
        try:
            return path.expanduser()
        except RuntimeError:  # No such user.
            return path

    def __str__(self) -> str:
        # A bundled model is shown under its name (alias), not under the path of its file.
        if self.alias is not None:
            return str(self.canonical({}))
        # Characters that have a meaning in a URL are escaped, for example "?" as "%3F".
        text = f"{self.family}:{quote(self.location, safe=_SAFE_IN_PATH)}"
        if self.options:
            pairs = (f"{k}={quote(v, safe=_SAFE_IN_VALUE)}" for k, v in sorted(self.options))
            text += "?" + "&".join(pairs)
        return text

    def get(self, key: str, default: str) -> str:
        """Return the value of option `key`, or `default` if it is not set."""
        return dict(self.options).get(key, default)

    def get_choice(self, key: str, choices: Iterable[str], default: str) -> str:
        """Return the value of option `key`, which must be one of `choices`.

        Parameters
        ----------
        key
            Name of the option.
        choices
            Allowed values.
        default
            Value if the option is not set.

        Raises
        ------
        SpecError
            If the value is not one of `choices`.
        """
        value, choices = self.get(key, default), list(choices)
        if value not in choices:
            raise SpecError(f"{key}={value!r} in {str(self)!r}: {suggest_names(value, choices)}")
        return value

    def check_options(self, allowed: Iterable[str]) -> None:
        """Raise `SpecError` if an option is not in `allowed`."""
        allowed = list(allowed)
        for key, _ in self.options:
            if key not in allowed:
                raise SpecError(
                    f"unknown option {key!r} in {str(self)!r}; {suggest_names(key, allowed)}"
                )

    def canonical(self, defaults: Mapping[str, str]) -> ModelSpec:
        """Return the shortest specification of the same model.

        The result omits options that have their default values. An alias is replaced by the family
        and the location for which it stands, and options that it implies are omitted as well.

        Parameters
        ----------
        defaults
            Default values of the family's options. Options of the alias take precedence.
        """
        base, implied_options = self, dict(defaults)
        if self.alias is not None:
            base = self.alias
            implied_options |= dict(base.options)
        options = tuple((k, v) for k, v in sorted(self.options) if implied_options.get(k) != v)
        return ModelSpec(base.family, base.location, options)


def split_name(text: str) -> tuple[str, str]:
    """Split ``NAME=SPEC`` into the display name of a model and its specification.

    The name ends at an equals sign before the first colon.

    Returns
    -------
    name : str
        Display name; empty if there is none.
    spec : str
        Specification, for example ``hf:gpt2?dtype=bfloat16``.

    Raises
    ------
    SpecError
        If the name is empty or contains ``=``, ``?`` or ``/``.
    """
    head, colon, address = text.partition(":")
    # NAME=FAMILY:LOCATION. Without an equals sign before the colon, there is no name.
    name, equals, family = head.partition("=")
    if not (equals and colon):
        return "", text
    if not name.strip() or not family or any(sign in head for sign in "?/") or "=" in family:
        raise SpecError(
            f"{text!r} has an ambiguous name; write NAME=FAMILY:LOCATION, without = ? / : in NAME"
        )
    return name.strip(), family + colon + address
