"""Registries of named objects, to which scripts and installed packages can add objects.

A package adds an object, e.g. a strategy or a measure, by an entry point in its metadata. Each kind
of object has a group of entry points. Objects of installed packages are available in all processes:
commands, study plans and workers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from contstim.errors import InputError, UnknownNameError

_Object = TypeVar("_Object")


class Registry(Collection[str], Generic[_Object]):
    """Mapping from names to objects of one kind, e.g. strategies.

    ``registry[name]`` returns an object, and iteration yields the names. The registry contains
    objects of contstim (*bundled* objects) and of installed packages; bundled names take
    precedence. ``registry[name] = object`` adds an object in the current process.

    Parameters
    ----------
    kind
        Noun for error messages, e.g. ``"strategy"``.
    group
        Group of entry points of installed packages, e.g. ``"contstim.strategies"``.
    bundled
        Bundled objects by name, or their addresses, ``module:name``, which are imported on first
        use.
    base_class
        Class that an object of an installed package must be an instance or a subclass of.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        bundled: Mapping[str, _Object | str],
        base_class: type | None = None,
    ) -> None:
        self.kind = kind
        self.group = group
        self.base_class = base_class
        self._objects: dict[str, _Object | str] = dict(bundled)

    def __iter__(self) -> Iterator[str]:
        yield from self._objects
        yield from (name for name in sorted(self._entry_points()) if name not in self._objects)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in self._objects or name in self._entry_points()

    def __getitem__(self, name: str) -> _Object:
        """Return an object by its name, importing it if necessary.

        Raises
        ------
        UnknownNameError
            If the name is unknown; the message suggests similar names.
        InputError
            If the package of the object cannot be imported, or the object has the wrong class.
        """
        if name in self._objects:
            registered = self._objects[name]
            # A bundled object is registered by its address, "module:name", until it is needed.
            if isinstance(registered, str):
                return cast(_Object, import_object(registered))
            return registered
        # Otherwise look for an installed package that provides an object of this name.
        entry_point = self._entry_points().get(name)
        if entry_point is None:
            raise UnknownNameError.with_suggestions(self.kind, name, self)
        description = f"the {self.kind} {name!r}"
        package = distribution_name(entry_point)
        provided = import_object(entry_point.value, description, package)
        # The package may provide a class or an instance.
        is_valid = issubclass if isinstance(provided, type) else isinstance
        if self.base_class is not None and not is_valid(provided, self.base_class):
            raise InputError(
                f"the package {package} provides {provided!r} as {description}; it must be a "
                f"{self.base_class.__name__}"
            )
        return cast(_Object, provided)

    def __setitem__(self, name: str, value: _Object) -> None:
        self._objects[name] = value

    def __delitem__(self, name: str) -> None:
        del self._objects[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an object by its name, or `default` if the name is unknown."""
        if name not in self:
            return default
        return self[name]

    def items(self) -> list[tuple[str, _Object]]:
        """Return pairs of names and objects, importing the packages that provide them."""
        return [(name, self[name]) for name in self]

    def package(self, name: str) -> str:
        """Return name and version of the package that provides an object; empty if bundled."""
        entry_point = None if name in self._objects else self._entry_points().get(name)
        if entry_point is None or entry_point.dist is None:
            return ""
        return f"{entry_point.dist.name} {entry_point.dist.version}"

    def packages(self, name: str) -> tuple[str, ...]:
        """Return a tuple with the name of the package that provides an object; empty if bundled."""
        package_name, *_ = self.package(name).split(" ")
        return (package_name,) if package_name else ()

    def _entry_points(self) -> dict[str, EntryPoint]:
        return {entry_point.name: entry_point for entry_point in entry_points(group=self.group)}


def distribution_name(entry_point: EntryPoint) -> str:
    """Return the name of the installed package that declares an entry point."""
    return "without a name" if entry_point.dist is None else entry_point.dist.name


def import_object(address: str, description: str = "", package: str = "") -> Any:
    """Import an object by its address.

    Parameters
    ----------
    address
        Address of the object, ``module:name``.
    description, package
        Description of the object and name of the package that provides it, for the message of an
        `InputError`. By default, exceptions of the import are raised unchanged.

    Returns
    -------
    object
        The object.

    Raises
    ------
    InputError
        If the package cannot be imported.
    """
    module, _, name = address.partition(":")
    # The address is `module:name`, where the name may contain dots.
    try:
        return attrgetter(name)(import_module(module))
    except Exception as error:  # a module of another package may raise any exception
        if not package:
            raise
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"the package {package}, which provides {description}, cannot be imported ({reason}); "
            "repair or uninstall it"
        ) from error
