"""The texts that participants see: complete in English, translated in one file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from contstim.errors import InputError, UnknownNameError
from contstim.settings import read_toml

_LONGEST = 10_000
#: Keys that earlier versions read; files of older studies have them.
_RETIRED = re.compile(r"choice_[1-6]")
_BRACES = re.compile(r"\{(\w*)\}")


#: Languages whose texts come with the package, and the direction of their script.
LANGUAGES = {"en": "ltr", "de": "ltr", "es": "ltr", "fr": "ltr", "he": "rtl", "zh": "ltr"}


def default_source(language: str = "en") -> str:
    """Return the file of the texts in one of `LANGUAGES` as it is written, with its comments."""
    name = "texts.toml" if language == "en" else f"translations/{language}.toml"
    return (files("contstim.experiment") / name).read_text("utf-8")


@cache
def _defaults() -> tuple[tuple[str, str], ...]:
    return tuple((key, text.strip()) for key, text in tomllib.loads(default_source()).items())


def default_texts() -> dict[str, str]:
    """Return the English texts by their keys."""
    return dict(_defaults())


def read_texts(path: Path) -> dict[str, str]:
    """Read a file of texts over the English ones.

    Raises
    ------
    InputError
        Naming file and key: a key that no page uses, something that is no text, a text that is
        empty or names something in braces that the page cannot fill in there.
    """
    texts = default_texts()
    for key, text in _checked(read_toml(path), texts, path):
        texts[key] = text
    return texts


def _checked(
    table: Mapping[str, object], defaults: Mapping[str, str], path: Path
) -> list[tuple[str, str]]:
    texts = []
    for key, text in table.items():
        if _RETIRED.fullmatch(key):
            continue
        if key not in defaults:
            raise UnknownNameError.among(f"text in {path}", key, defaults)
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{path}: {key} is {text!r}; give a text, or leave the key out")
        if len(text) > _LONGEST:
            raise InputError(f"{path}: {key} has {len(text)} characters; give at most {_LONGEST}")
        offered = set(_BRACES.findall(defaults[key]))
        for name in _BRACES.findall(text):
            if name not in offered:
                what = ", ".join(sorted("{" + n + "}" for n in offered)) or "no braces"
                raise InputError(f"{path}: {key} holds {{{name}}}; the page fills in {what} there")
        texts.append((key, text.strip()))
    return texts
