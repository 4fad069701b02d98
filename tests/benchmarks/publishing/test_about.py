"""What only those who publish can say."""

from pathlib import Path

import pytest
from folders import ABOUT

from contstim.benchmarks.publishing.about import about_template, read_about
from contstim.errors import InputError


def test_a_template_that_is_filled_in_is_read(tmp_path: Path) -> None:
    text = about_template("My-Study", "A title", "", "en", ["m1", 'm"2'])
    path = tmp_path / "about.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match=r"description is still '\[\[ write it here \]\]'"):
        read_about(path)
    filled = text.replace("[[ of the data, as SPDX has it, such as CC-BY-4.0 ]]", "MIT")
    path.write_text(filled.replace('"[[ ', '"').replace(' ]]"', '"'), "utf-8")
    about = read_about(path)
    assert about.name == "mystudy"
    assert [model.name for model in about.models] == ["m1", 'm"2']
    assert about.texts[0].redistribute is False  # unless somebody says that it may be


FAULTS = {
    'name = "walks"': ('name = "Walks 1"', "name is 'Walks 1'; use up to 40 lower-case letters"),
    "redistribute = false\n": ("", r"texts\[0\].redistribute is missing"),
    'name = "others"': ('name = "licensed"', "texts has 'licensed' twice"),
    'file = "licensed.txt"\n': ("", "two of \\[\\[texts\\]\\] name no file"),
    'uses = "Tests."\n': ("", "responsible.uses"),
    'language = "en"': ('language = "english language"', "language is"),
}


@pytest.mark.parametrize("old", FAULTS)
def test_faults_name_the_key(old: str, tmp_path: Path) -> None:
    new, message = FAULTS[old]
    assert old in ABOUT
    (tmp_path / "about.toml").write_text(ABOUT.replace(old, new, 1), "utf-8")
    with pytest.raises(InputError, match=message):
        read_about(tmp_path / "about.toml")


def test_data_without_a_paper_are_cited_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "about.toml").write_text(ABOUT, "utf-8")
    cited = read_about(tmp_path / "about.toml").cited("2026-11-25")
    assert cited == "Example A (2026). Who walked home. Data set, version 1.0.0."
