"""Things by name: contstim's own, what a script adds, and what installed packages bring.

A package brings a strategy, a measure, a metric ... by an entry point in its metadata, of the group
that the kind of thing has. Every process of the same Python finds it: commands, study plans,
workers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from contstim.errors import InputError, UnknownNameError

_Thing = TypeVar("_Thing")


class Registry(Collection[str], Generic[_Thing]):
    """The things of one kind by name; as a collection, the names.

    A name of contstim's own is never another package's. What a script adds with ``registry[name] =
    thing`` holds in its process alone.

    Parameters
    ----------
    kind
        What messages call such a thing: ``"strategy"``.
    group
        The group of entry points by which packages bring more: ``"contstim.strategies"``.
    things
        Contstim's own. A text is the address of one, ``module:name``, which is imported on first
        use.
    form
        The class that what a package brings must be an instance or, itself a class, a subclass of.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        things: Mapping[str, _Thing | str],
        form: type | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self.form = form
        self._things: dict[str, _Thing | str] = dict(things)

    def __iter__(self) -> Iterator[str]:
        yield from self._things
        yield from (name for name in sorted(self._entries()) if name not in self._things)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._things or name in self._entries()

    def __getitem__(self, name: str) -> _Thing:
        """Return the thing called `name`, imported if need be.

        Raises
        ------
        UnknownNameError
            If there is none; near matches are named.
        InputError
            If the package that brings it cannot be imported, or brings something else.
        """
        thing = self._things.get(name)
        if thing is None:
            entry = self._entries().get(name)
            if entry is None:
                raise UnknownNameError.with_suggestions(self.kind, name, self)
            return self._brought(entry)
        return cast(_Thing, import_object(thing) if isinstance(thing, str) else thing)

    def __setitem__(self, name: str, thing: _Thing) -> None:
        self._things[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._things[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the thing called `name`, or `default`."""
        if name not in self:
            return default
        return self[name]

    def items(self) -> list[tuple[str, _Thing]]:
        """Return names and things; every package that brings one is imported."""
        return [(name, self[name]) for name in self]

    def package(self, name: str) -> str:
        """Return the package that brings the thing called `name`, and its version; or nothing."""
        entry = None if name in self._things else self._entries().get(name)
        if entry is None or entry.dist is None:
            return ""
        return f"{entry.dist.name} {entry.dist.version}"

    def packages(self, name: str) -> tuple[str, ...]:
        """Return the name of the package that brings the thing called `name`, if one does."""
        return tuple(self.package(name).split(" ")[:1]) if self.package(name) else ()

    def _entries(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}

    def _brought(self, entry: EntryPoint) -> _Thing:
        what = f"the {self.kind} {entry.name!r}"
        thing = import_object(entry.value, what, distribution_name(entry))
        fits = issubclass if isinstance(thing, type) else isinstance
        if self.form is not None and not fits(thing, self.form):
            raise InputError(
                f"the package {distribution_name(entry)} provides {thing!r} as {what}; it must be "
                f"a {self.form.__name__}"
            )
        return cast(_Thing, thing)


def distribution_name(entry: EntryPoint) -> str:
    """Return the name of the package whose metadata has an entry point."""
    return "without a name" if entry.dist is None else entry.dist.name


def import_object(address: str, what: str = "", package: str = "") -> Any:
    """Return what an address, ``module:name``, stands for.

    Parameters
    ----------
    address
        Where it is.
    what, package
        What it is and which package brings it, for the message; contstim's own fails as it is.

    Raises
    ------
    InputError
        If the package cannot be imported.
    """
    module, _, name = address.partition(":")
    try:
        return attrgetter(name)(import_module(module))
    except Exception as error:  # another's module may raise anything
        if not package:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"the package {package}, which provides {what}, cannot be imported ({reason}); "
            "repair or uninstall it"
        ) from error
