"""Things by name, of contstim, of a script and of installed packages."""

from pathlib import Path
from typing import Annotated

import pytest
from installed import install

from contstim.errors import InputError, UnknownNameError
from contstim.plugins import Registry
from contstim.settings import field_bounds, settings, validate_choice

GROUP = "contstim.fruits"


@pytest.fixture
def fruits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[float]:
    entries = {GROUP: "kiwi = grocer:KIWI\napple = grocer:KIWI\nhole = grocer:MISSING\n"}
    install(tmp_path / "site", monkeypatch, "grocer", "KIWI = 0.25\n", entries)
    return Registry("fruit", GROUP, {"pear": 1.0, "pi": "math:pi", "apple": 2.0}, float)


def test_own_names_come_first_and_stay_what_they_are(fruits: Registry[float]) -> None:
    assert list(fruits) == ["pear", "pi", "apple", "hole", "kiwi"]
    assert len(fruits) == 5
    assert (fruits["apple"], fruits["kiwi"]) == (2.0, 0.25)
    assert [fruits.package(name) for name in ("apple", "kiwi")] == ["", "grocer 1.5"]


def test_an_address_is_imported_when_it_is_used(fruits: Registry[float]) -> None:
    assert fruits["pi"] == pytest.approx(3.14159265)


def test_a_script_adds_one_for_its_process(fruits: Registry[float]) -> None:
    fruits["fig"] = 0.1
    assert "fig" in fruits
    assert fruits["fig"] == 0.1
    del fruits["fig"]
    assert fruits.get("fig") is None


def test_an_unknown_name_lists_the_near_ones(fruits: Registry[float]) -> None:
    with pytest.raises(UnknownNameError) as error:
        fruits["kivi"]
    assert str(error.value) == "unknown fruit 'kivi'; did you mean 'kiwi'?"


def test_what_cannot_be_imported_names_the_package(fruits: Registry[float]) -> None:
    with pytest.raises(InputError) as error:
        fruits["hole"]
    assert str(error.value) == (
        "the package grocer, which provides the fruit 'hole', cannot be imported (AttributeError: "
        "module 'grocer' has no attribute 'MISSING'); repair or uninstall it"
    )


def test_what_is_no_such_thing_is_refused(fruits: Registry[float]) -> None:
    fruits.base_class = str
    with pytest.raises(InputError) as error:
        fruits["kiwi"]
    assert str(error.value) == (
        "the package grocer provides 0.25 as the fruit 'kiwi'; it must be a str"
    )


def test_names_and_things_together() -> None:
    assert Registry("fruit", GROUP, {"pear": 1.0, "pi": "math:e"}).items()[0] == ("pear", 1.0)


def test_settings_take_the_names_as_they_are_then() -> None:
    names = Registry("fruit", GROUP, {"pear": 1.0})

    @settings
    class Basket:
        fruit: Annotated[str, validate_choice(names)] = "pear"

    names["fig"] = 0.1
    assert Basket("fig").fruit == "fig"
    assert field_bounds(Basket, "fruit")[1]["choices"] == ("pear", "fig")
