"""Registries of bundled objects and of those that scripts and packages add."""

from pathlib import Path
from typing import Annotated

import pytest
from fake_packages import install

from contstim.errors import InputError, UnknownNameError
from contstim.plugins import Registry
from contstim.settings import field_bounds, settings, validate_choice

GROUP = "contstim.fruits"


@pytest.fixture
def fruits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[float]:
    entries = {GROUP: "kiwi = grocer:KIWI\napple = grocer:KIWI\nhole = grocer:MISSING\n"}
    install(tmp_path / "site", monkeypatch, "grocer", "KIWI = 0.25\n", entries)
    return Registry("fruit", GROUP, {"pear": 1.0, "pi": "math:pi", "apple": 2.0}, float)


def test_bundled_names_precede_those_of_plugins(fruits: Registry[float]) -> None:
    assert list(fruits) == ["pear", "pi", "apple", "hole", "kiwi"]
    assert len(fruits) == 5
    assert (fruits["apple"], fruits["kiwi"]) == (2.0, 0.25)
    assert [fruits.package(name) for name in ("apple", "kiwi")] == ["", "grocer 1.5"]


def test_import_paths_are_resolved_on_access(fruits: Registry[float]) -> None:
    assert fruits["pi"] == pytest.approx(3.14159265)


def test_entries_can_be_added_and_deleted(fruits: Registry[float]) -> None:
    fruits["fig"] = 0.1
    assert "fig" in fruits
    assert fruits["fig"] == 0.1
    del fruits["fig"]
    assert fruits.get("fig") is None


def test_unknown_name_gets_a_suggestion(fruits: Registry[float]) -> None:
    with pytest.raises(UnknownNameError) as error:
        fruits["kivi"]
    assert str(error.value) == "unknown fruit 'kivi'; did you mean 'kiwi'?"


def test_failed_plugin_import_names_the_package(fruits: Registry[float]) -> None:
    with pytest.raises(InputError) as error:
        fruits["hole"]
    assert str(error.value) == (
        "the package grocer, which provides the fruit 'hole', cannot be imported (AttributeError: "
        "module 'grocer' has no attribute 'MISSING'); repair or uninstall it"
    )


def test_plugins_of_the_wrong_type_are_rejected(fruits: Registry[float]) -> None:
    fruits.base_class = str
    with pytest.raises(InputError) as error:
        fruits["kiwi"]
    assert str(error.value) == (
        "the package grocer provides 0.25 as the fruit 'kiwi'; it must be a str"
    )


def test_items_of_the_registry() -> None:
    assert Registry("fruit", GROUP, {"pear": 1.0, "pi": "math:e"}).items()[0] == ("pear", 1.0)


def test_validate_choice_accepts_names_added_later() -> None:
    names = Registry("fruit", GROUP, {"pear": 1.0})

    @settings
    class Basket:
        fruit: Annotated[str, validate_choice(names)] = "pear"

    names["fig"] = 0.1
    assert Basket("fig").fruit == "fig"
    assert field_bounds(Basket, "fruit")[1]["choices"] == ("pear", "fig")
