"""Puts the npm files of the experiment's page into the wheel and the source distribution."""

from __future__ import annotations

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_WITHOUT = "CONTSTIM_WITHOUT_PAGE"


class PageHook(BuildHookInterface):
    """Fetches what is missing, where npm is there; a source distribution has it already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Fetch the files, except for an editable install, where `make page` does it."""
        if version == "editable" or os.environ.get(_WITHOUT):
            return
        sys.path.insert(0, self.root)
        try:
            from contstim.errors import ContstimError
            from contstim.experiment.vendor import fetch_vendor, list_vendor_files
        finally:
            sys.path.remove(self.root)
        try:
            list_vendor_files()
        except ContstimError:
            try:
                fetch_vendor()
            except ContstimError as error:
                # All but the experiment works without; there they are fetched on first use.
                print(
                    f"contstim: without the files of the experiment's page ({error}); they are "
                    "fetched when the experiment is first used",
                    file=sys.stderr,
                )
