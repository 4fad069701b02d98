"""Test the files of the page without a browser or npm.

Tests `contstim.experiment.pages`, `contstim.experiment.vendor`.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jatos_rules import check_jatos_archive
from studies import add, edit

from contstim.cli import main
from contstim.errors import InputError, MissingExtraError, ValidationError
from contstim.experiment import vendor
from contstim.experiment.options import TrialOptions
from contstim.experiment.pages import (
    make_jatos_archive,
    render_index,
    write_static,
)
from contstim.experiment.presentations import PRESENTATIONS, make_presentation
from contstim.experiment.study import Study, read_default_texts
from contstim.experiment.vendor import (
    PAGE_FOLDER,
    VENDORED_FILES,
    fetch_vendor,
    list_page_files,
    list_vendor_files,
)

SOURCES = [
    path
    for place in ("", "transports/", "presentations/")
    for path in PAGE_FOLDER.glob(f"{place}*.js")
]


@pytest.fixture
def vendored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a substitute for the npm file, which tests must not need."""
    file = tmp_path / "jspsych.min.js"
    file.write_text("// jsPsych", "utf-8")
    monkeypatch.setattr(
        "contstim.experiment.vendor.list_vendor_files", lambda: {"jspsych.min.js": file}
    )
    return file


def test_missing_npm_files_name_the_command(
    study: Study, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(MissingExtraError) as caught:
        list_vendor_files(tmp_path)
    assert str(caught.value) == (
        "the experiment's page lacks jspsych.min.js; run `contstim experiment build`, which needs "
        "npm (in a checkout: make page)"
    )


def test_missing_npm_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(vendor.shutil, "which", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"npm is not installed; install Node.js 18"):
        fetch_vendor(tmp_path)


def fake_npm(folder: Path, script: str) -> Path:
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    npm.chmod(0o755)
    return npm


def test_npm_installs_locked_packages_without_scripts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = "".join(
        f"mkdir -p node_modules/{Path(target).parent} && "
        f"printf 'code();\\n//# sourceMappingURL=https://elsewhere.example/x.map\\n' "
        f"> node_modules/{target} && "
        for target in VENDORED_FILES.values()
    )
    script = (
        'echo "$@" > node_arguments && test -f package-lock.json && '
        f"{made} cp node_arguments {tmp_path}/arguments"
    )
    npm = fake_npm(tmp_path, script)
    monkeypatch.setattr(vendor.shutil, "which", lambda _: str(npm))
    page = tmp_path / "page"
    page.mkdir()
    for name in ("package.json", "package-lock.json"):
        (page / name).write_bytes((PAGE_FOLDER / name).read_bytes())
    written = fetch_vendor(page)[0]
    # A source map on another host would be asked for by browsers.
    assert written.read_text("utf-8").strip() == "code();"
    assert list_vendor_files(page)["jspsych.min.js"] == written
    assert [*list_vendor_files(page)] == [*VENDORED_FILES]
    arguments = (tmp_path / "arguments").read_text("utf-8").split()
    assert arguments[0] == "ci"
    assert "--ignore-scripts" in arguments

    fake_npm(tmp_path, "echo 'npm error code EINTEGRITY' >&2; exit 1")
    with pytest.raises(MissingExtraError, match="packages: npm error code EINTEGRITY"):
        fetch_vendor(page)


def test_npm_packages_are_pinned_by_hash() -> None:
    lock = json.loads((PAGE_FOLDER / "package-lock.json").read_text("utf-8"))
    packages = {name: package for name, package in lock["packages"].items() if name}
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert not any("resolved" in package for package in packages.values())


def test_licences_of_vendored_files_are_listed() -> None:
    notice = (PAGE_FOLDER / "THIRD_PARTY.txt").read_text("utf-8")
    # type-fest is types only: nothing of it is in the file.
    lock = json.loads((PAGE_FOLDER / "package-lock.json").read_text("utf-8"))
    for path, package in lock["packages"].items():
        name = path.removeprefix("node_modules/")
        if name:
            assert (f"\n{name} {package['version']}" in notice) != (name == "type-fest")
    assert (PAGE_FOLDER / "THIRD_PARTY.txt").exists()


def test_sources_use_no_other_host_and_no_html() -> None:
    assert len(SOURCES) > 8
    for path in (*SOURCES, PAGE_FOLDER / "page.css", PAGE_FOLDER / "index.html"):
        text = path.read_text("utf-8")
        assert not re.search(r"(https?:)?//[a-z0-9-]+\.[a-z]", text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    # Where the pointer rests must not suggest an answer.
    assert ":hover" not in (PAGE_FOLDER / "page.css").read_text("utf-8")


def test_texts_and_their_uses_agree() -> None:
    code = "\n".join(path.read_text("utf-8") for path in SOURCES)
    html = (PAGE_FOLDER / "index.html").read_text("utf-8")
    used = {*re.findall(r'"([a-z]+(?:_[a-z]+)+|loading|saving|offline|progress)"', code)}
    used |= {*re.findall(r"\{(loading|no_script|not_loaded)\}", html), "refused"}
    used |= {f"confidence_{number}" for number in range(1, 5)}
    used |= {f"sentence_{place}" for place in ("left", "right", "upper", "lower")} | {"saving"}
    ends = "debrief declined screened_out full over time_limit failed_checks already_complete"
    used |= {"participant_missing_title", "participant_missing_text"}
    titles = "instructions practice practice_done break"
    used |= {f"{name}_{part}" for name in ends.split() for part in ("title", "text")}
    used |= {f"{name}_title" for name in titles.split()}
    for name in PRESENTATIONS:
        used |= {*make_presentation(TrialOptions(name)).text_keys.values()}
    texts = {*read_default_texts()}
    assert texts - used == set()
    assert set(re.findall(r'say\("(\w+)"', code)) <= texts


def test_page_texts_are_escaped(study: Study) -> None:
    study = edit(study, 'title = "Which sentence is more likely?"', 'title = "<b> & {loading}"')
    page = render_index(study, "server")
    assert "<title>&lt;b&gt; &amp;" in page
    assert '<html lang="en" dir="ltr">' in page
    assert 'content="server"' in page
    assert "{head}" not in page
    assert "This page needs JavaScript" in page


def read_site(site: Path) -> dict[str, Any]:
    table: dict[str, Any] = json.loads((site / "study.json").read_text("utf-8"))
    return table


def test_static_site_has_a_bundle_per_assignment(
    study: Study, vendored: Path, tmp_path: Path
) -> None:
    study = add(study, '[recruiter]\nname = "x"\n[recruiter.codes]\ncomplete = "C1"\n')
    site = write_static(study, tmp_path / "site", "https://pipe.example/api/data/", "abc")
    info = read_site(site)
    # Assignments are given out so that groups fill evenly.
    assert [one["group"] for one in info["assignments"]] == [1, 2, 1, 2]
    assert info["links"]["complete"] == {"code": "C1", "redirect": None}
    assert info["collect"] == {
        "endpoint": "https://pipe.example/api/data/",
        "experiment_id": "abc",
    }
    for one in info["assignments"]:
        bundle = json.loads((site / "bundles" / f"{one['assignment']}.json").read_text("utf-8"))
        assert bundle["group"] == one["group"]
        own = study.design.trials[one["assignment"]]
        assert [(t["number"], t["shown"]) for t in bundle["trials"]] == [
            (t.number, t.shown) for t in own
        ]
        # The page never learns which side is which, nor which trials are catch trials.
        assert {*bundle["trials"][0]} == {"trial", "number", "kind", "shown"}
    index = (site / "index.html").read_text("utf-8")
    assert "connect-src &#x27;self&#x27; https://pipe.example;" in index
    assert {*list_page_files()} <= {path.relative_to(site).as_posix() for path in site.rglob("*")}


@pytest.mark.parametrize(
    ("endpoint", "experiment", "message"),
    [
        ("http://pipe.example/", "a", "is not https; data would travel unprotected"),
        ("pipe", "a", "is not https"),
        ("https://x.example; script-src *", "a", "characters that are invalid in a URL"),
        ("https://pipe.example/", None, "needs the experiment's id"),
        (None, "a", "needs an endpoint"),
    ],
)
def test_invalid_endpoints_are_rejected(
    study: Study,
    vendored: Path,
    tmp_path: Path,
    endpoint: str | None,
    experiment: str | None,
    message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        write_static(study, tmp_path / "site", endpoint, experiment)
    assert not (tmp_path / "site").exists()


def test_existing_folder_is_not_overwritten(
    study: Study, vendored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "thesis.txt").write_text("", "utf-8")
    assert main(["experiment", "static", str(study.folder), "--out", str(tmp_path / "site")]) == 2
    assert "exists and is not empty" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["thesis.txt"]


def test_archive_satisfies_the_rules_of_jatos(
    study: Study, vendored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = edit(study, 'title = "Which sentence is more likely?"', 'title = "A & <b>"')
    path = tmp_path / "study.jzip"
    assert main(["experiment", "jatos", str(study.folder), "--out", str(path)]) == 0
    told = capsys.readouterr()
    assert told.out.endswith(f"{path}\n")
    assert told.err.endswith(
        f"next: import {path} in JATOS as a study; `contstim experiment import {study.folder} "
        "FILES` reads its data\n"
    )
    check_jatos_archive(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        table = json.loads(archive.read("study.jas"))
    assert {name.split("/")[0] for name in names} == {"study.jas", "contstim_study"}
    data = table["data"]
    assert data["title"] == "A and (b)"
    assert data["dirName"] == "contstim_study"
    (component,) = data["componentList"]
    assert component["reloadable"] is True
    # The same study keeps its ids, so that JATOS updates it; another design is another study.
    assert make_jatos_archive(study) == path.read_bytes()
    csv = study.folder / "trials.csv"
    csv.write_text(csv.read_text("utf-8").replace("Number 0", "Numeral 0"), "utf-8")
    from contstim.experiment.study import read_study

    check_jatos_archive(io.BytesIO(other := make_jatos_archive(read_study(study.folder))))
    with zipfile.ZipFile(io.BytesIO(other)) as archive:
        assert json.loads(archive.read("study.jas"))["data"]["uuid"] != data["uuid"]


def change_archive(archive: bytes, change: Callable[[dict[str, Any]], None]) -> io.BytesIO:
    """Return an archive with a change to the study's properties."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(".jas"):
                table = json.loads(content)
                change(table)
                content = json.dumps(table).encode()
            new.writestr(name, content)
    return stream


def set_property(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(table: dict[str, Any]) -> None:
        place: Any = table
        *parents, last = path.split(".")
        for name in parents:
            place = place[int(name) if name.isdigit() else name]
        place[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("version", "2", "version '2'; JATOS reads 3"),
        ("version", "4", "version '4'; JATOS reads 3"),
        ("data", [], "has no table 'data'"),
        ("data.title", " ", "the title of the study is ' '"),
        ("data.title", "x" * 256, "JATOS takes 1 to 255 characters"),
        ("data.title", "a <b>", "takes text without HTML"),
        ("data.description", "<i>", "the study's description is '<i>'"),
        ("data.dirName", "", "dirName is ''"),
        ("data.dirName", "a b", "a name that JATOS refuses"),
        ("data.dirName", "publix", "a name that JATOS refuses"),
        ("data.dirName", "other", "the folder is 'contstim_study', but dirName is 'other'"),
        ("data.studyInput", {"a": 1}, "JATOS takes JSON as text"),
        ("data.studyInput", "{", "which is not JSON"),
        ("data.uuid", "1", "uuid is '1', which is none"),
        ("data.componentList", None, "componentList is None"),
        ("data.componentList.0.title", "", "the title of a component"),
        ("data.componentList.0.htmlFilePath", "a b.html", "one dot and no spaces"),
        ("data.componentList.0.htmlFilePath", "a.b.html", "one dot and no spaces"),
        ("data.componentList.0.htmlFilePath", "other.html", "which is not in the archive"),
        ("data.componentList.0.componentInput", "x", "componentInput is 'x', which is not JSON"),
        ("data.batchList.0.maxTotalWorkers", 0, "null or a number from 1 up"),
        ("data.batchList.0.allowedWorkerTypes", ["Robot"], "'Robot', which JATOS does not know"),
        ("data.batchList.0.batchInput", 3, "batchInput is 3"),
    ],
)
def test_invalid_jatos_properties_are_detected(
    study: Study, vendored: Path, path: str, value: Any, message: str
) -> None:
    archive = make_jatos_archive(study)
    check_jatos_archive(change_archive(archive, lambda _: None))
    with pytest.raises(ValidationError, match=re.escape(message)):
        check_jatos_archive(change_archive(archive, set_property(path, value)))


def test_invalid_archive_layouts_are_detected(study: Study, vendored: Path) -> None:
    archive = make_jatos_archive(study)
    with pytest.raises(ValidationError, match="not a ZIP file"):
        check_jatos_archive(io.BytesIO(archive[:100]))
    for name, message in (
        ("second.jas", "holds 2 .jas files"),
        ("second/file.txt", "holds the folders contstim_study, second"),
        ("../file.txt", "leads out of it"),
    ):
        stream = io.BytesIO(archive)
        with zipfile.ZipFile(stream, "a") as opened:
            opened.writestr(name, b"")
        with pytest.raises(ValidationError, match=re.escape(message)):
            check_jatos_archive(stream)

    def twice(table: dict[str, Any]) -> None:
        table["data"]["batchList"][0]["uuid"] = table["data"]["uuid"]

    with pytest.raises(ValidationError, match="occurs twice"):
        check_jatos_archive(change_archive(archive, twice))


def test_vendored_files_are_fetched_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetched: list[Path] = []
    monkeypatch.setattr(vendor, "fetch_vendor", fetched.append)
    monkeypatch.setattr(vendor.shutil, "which", lambda _: None)
    vendor.fetch_on_first_use(tmp_path)  # without npm the page says what to do
    monkeypatch.setattr(vendor.shutil, "which", lambda _: "npm")
    vendor.fetch_on_first_use(tmp_path)
    assert fetched == [tmp_path]
    assert "once" in capsys.readouterr().err
    (tmp_path / "vendor").mkdir()
    for name in VENDORED_FILES:
        (tmp_path / "vendor" / name).write_text("", "utf-8")
    vendor.fetch_on_first_use(tmp_path)
    assert fetched == [tmp_path]
