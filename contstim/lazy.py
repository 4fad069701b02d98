"""Public names of packages, imported on first use."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach_stub(package: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Read the public names of a package and their modules from its type stub.

    Parameters
    ----------
    package
        Name of the package.
    file
        Path of its ``__init__.py``. The type stub ``__init__.pyi`` is beside it.

    Returns
    -------
    import_name : function
        Function that imports a public name, to be used as ``__getattr__`` of the package.
    names : list of str
        Public names in alphabetical order.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text("utf-8"))
    # The stub lists the public names as `from MODULE import NAME`.
    modules = {
        alias.name: str(statement.module)
        for statement in stub.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    # Import a module only when one of its names is first used.
    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # A name imported from the package itself is one of its modules.
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(modules[name]), name)

    return import_name, sorted(modules)
