"""What only those who publish can say: who they are, what texts and models are whose, what for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from contstim.errors import InputError
from contstim.settings import Several, build, matching, read_toml, settings

#: What a template has where something is to be written.
PLACEHOLDER = "[["

_Said = Annotated[str, matching(r"(?s)\s*\S.*", "write it there")]
_Name = Annotated[
    str, matching(r"[a-z][a-z0-9]{0,39}", "use up to 40 lower-case letters and digits, no others")
]


@settings
class Author:
    """One ``[[authors]]``.

    Attributes
    ----------
    given, family
        Names.
    orcid, affiliation
        Nothing if they are not to be said.
    """

    given: _Said
    family: _Said
    orcid: Annotated[str, matching(r"(\d{4}-){3}\d{3}[\dX]|", "write 0000-0000-0000-0000")] = ""
    affiliation: str = ""


@settings
class TextSource:
    """One ``[[texts]]``: where sentences are from, and whether they may be passed on.

    Attributes
    ----------
    name
        What the table of stimuli calls it.
    source
        An address, a publication, or how they were made.
    licence
        Under which they are, or ``none stated``.
    redistribute
        Whether that lets one publish them. If not, digests stand in their place.
    synthetic
        Whether a program wrote them.
    file
        A file of them, one a line or with a column ``sentence``, beside this one; without a file,
        all sentences that no other source lists.
    """

    name: _Said
    source: _Said
    licence: _Said
    redistribute: bool
    synthetic: bool = False
    file: str = ""


@settings
class ModelSource:
    """One ``[[models]]``: where a model whose scores are published is from.

    Attributes
    ----------
    name
        As the table of scores has it.
    source
        An address or a publication.
    licence
        Under which its weights are, or ``none stated``.
    version
        Of its weights: a revision, or a date.
    """

    name: _Said
    source: _Said
    licence: _Said
    version: str = ""


@settings
class Responsible:
    """``[responsible]``: what the RAI fields of Croissant ask and no table tells.

    Attributes
    ----------
    limitations
        What the data do not show, and where they should not be used.
    biases
        Whose language and judgements they are.
    uses
        What they are for.
    impact
        What good or harm their use may do.
    collection
        How people were asked and paid, and which board approved it.
    maintenance
        Who answers questions, and what becomes of corrections.
    """

    limitations: _Said
    biases: _Said
    uses: _Said
    impact: _Said
    collection: _Said
    maintenance: str = ""


@settings
class About:
    """What a file ``about.toml`` says of what is published.

    Attributes
    ----------
    name
        Of the benchmark, in names of files and tasks.
    title, description
        One line, and some sentences.
    question
        What people were asked about two sentences.
    licence
        Of the data, as SPDX has it, such as ``CC-BY-4.0``.
    authors, texts, models, responsible
        Its tables.
    language
        Of the sentences, a tag such as ``en``.
    version
        Of the data, three numbers.
    url, doi
        Where it will be, as far as that is known.
    citation
        A publication to cite with it.
    """

    name: _Name
    title: _Said
    description: _Said
    question: _Said
    licence: Annotated[str, matching(r"[A-Za-z0-9.+-]+", "give the name that SPDX has, CC-BY-4.0")]
    authors: Several[Author]
    texts: Several[TextSource]
    responsible: Responsible
    models: Several[ModelSource] = ()
    language: Annotated[
        str, matching(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*", "give a tag such as 'en'")
    ] = "en"
    version: Annotated[str, matching(r"\d+\.\d+\.\d+", "give three numbers, 1.0.0")] = "1.0.0"
    url: Annotated[str, matching(r"(https?://\S+)?", "give an address, https://...")] = ""
    doi: Annotated[str, matching(r"(10\.\d{4,}/\S+)?", "give it as 10.1234/abc")] = ""
    citation: str = ""

    def __post_init__(self) -> None:
        if not self.authors or not self.texts:
            missing = "texts" if self.authors else "authors"
            raise InputError(f"{missing} is empty; give at least one table [[{missing}]]")
        for what in ("texts", "models"):
            names = [source.name for source in getattr(self, what)]
            for name in names:
                if names.count(name) > 1:
                    raise InputError(f"{what} has {name!r} twice; name each source once")
        if sum(not text.file for text in self.texts) > 1:
            raise InputError("two of [[texts]] name no file; of one source only that can be left")

    def cited(self, date: str) -> str:
        """Return how the data are cited where `citation` names nothing, published on a date."""
        by = ", ".join(f"{author.family} {author.given[:1]}" for author in self.authors)
        doi = f", doi {self.doi}" if self.doi else ""
        return (
            f"{by} ({date[:4]}). {self.title.rstrip('.')}. Data set, version {self.version}{doi}."
        )


def read_about(path: Path) -> About:
    """Read a file that says what is published.

    Raises
    ------
    InputError
        Naming the key, what it holds and what it should; also if places of the template are
        still to be filled in.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_about(Path("about.toml")).licence  # doctest: +SKIP
    'CC-BY-4.0'
    """
    table = read_toml(path, "write a first one with `contstim publish STUDY --template FILE`")
    for key, text in _texts(table):
        if PLACEHOLDER in text:
            raise InputError(f"{path}: {key} is still {text!r}; write your own text there")
    try:
        return build(About, table)
    except InputError as error:
        raise type(error)(f"{path}: {error}") from None


def _texts(value: Any, key: str = "") -> Iterable[tuple[str, str]]:
    """Yield every text of a table of TOML, with its key."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value, 1)
        for name, within in items:
            yield from _texts(within, f"{key}.{name}" if key else str(name))


def about_template(
    name: str, title: str, description: str, language: str, models: Iterable[str]
) -> str:
    """Return the text of an ``about.toml`` to be filled in, for these models."""
    asked = {item.name: _first_sentence(item.name) for item in fields(Responsible)}
    lines = [
        "# What only you can say of what you publish. Replace each [[ ... ]].",
        f'name = "{re.sub("[^a-z0-9]", "", name.lower()) or "benchmark"}"',
        f"title = {_quoted(title)}",
        f"description = {_quoted(description)}",
        'question = "[[ what people were asked about two sentences, in their words ]]"',
        'licence = "[[ of the data, as SPDX has it, such as CC-BY-4.0 ]]"',
        f"language = {_quoted(language)}",
        'version = "1.0.0"',
        '# url = "https://..."',
        '# doi = "10.1234/abc"',
        '# citation = "a publication to cite with it"',
        "",
        "[[authors]]",
        'given = "[[ given name ]]"',
        'family = "[[ family name ]]"',
        '# orcid = "0000-0000-0000-0000"',
        '# affiliation = "..."',
        "",
        "# Where sentences are from: a table for each source.",
        "[[texts]]",
        'name = "[[ a word for this source ]]"',
        'source = "[[ an address, a publication, or how they were made ]]"',
        'licence = "[[ under which they are ]]"',
        "redistribute = false  # true if that lets you publish them; else digests are published",
        "synthetic = false  # true if a program wrote them",
        '# file = "sentences.txt"  # which they are; without it all that no other source lists',
        "",
    ]
    for model in models:
        lines += [
            "[[models]]",
            f"name = {_quoted(model)}",
            'source = "[[ an address or a publication ]]"',
            'licence = "[[ of its weights, or none stated ]]"',
            '# version = "a revision or a date"',
            "",
        ]
    lines.append("[responsible]")
    lines += [f'{key} = "[[ {what} ]]"' for key, what in asked.items() if key != "maintenance"]
    lines.append(f'# maintenance = "{asked["maintenance"]}"')
    return "\n".join(lines) + "\n"


def _first_sentence(name: str) -> str:
    """Return what the documentation of `Responsible` says of a field."""
    _, _, rest = (Responsible.__doc__ or "").partition(f"    {name}\n")
    return rest.strip().partition("\n")[0].rstrip(".").lower()


def _quoted(text: str) -> str:
    """Return a text as TOML has it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped or "[[ write it here ]]"}"'
