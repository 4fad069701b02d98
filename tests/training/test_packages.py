"""Finding files of other packages and converting them once, whatever interrupts it."""

import threading
import time
from pathlib import Path

import pytest

from contstim.errors import MissingExtraError, ModelFileError, OutputError
from contstim.training.packages import convert_once, digest_of_files, package_file


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "deep"
    monkeypatch.setenv("CONTSTIM_CACHE", str(folder))
    return folder


def install(site: Path, package: str, files: list[str]) -> Path:
    """Make a package's metadata, as pip leaves it, and its folder; return the folder."""
    module = package.replace("-", "_")
    info = site / f"{module}-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 9.9\n")
    (info / "RECORD").write_text("".join(f"{module}/{file},,\n" for file in files))
    folder = site / module
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('it is not to be imported')\n")
    return folder


def test_finds_a_file_without_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install(tmp_path / "site", "some-model", ["__init__.py", "a.onnx"])
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ModelFileError) as missing:
        package_file("contstim:x", "some-model", ".onnx", "")
    assert str(missing.value) == (
        "contstim:x: the package some-model 9.9 has no file *.onnx; install it again"
    )
    (folder / "a.onnx").write_bytes(b"1")
    assert package_file("contstim:x", "some-model", ".onnx", "") == folder / "a.onnx"
    with pytest.raises(MissingExtraError) as error:
        package_file("contstim:x", "no-such-model", ".onnx", "pip install it")
    assert str(error.value) == (
        "contstim:x is in the package no-such-model, which is not installed; pip install it"
    )


def test_the_digest_follows_content_and_order(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(b"one")
    b.write_bytes(b"two")
    first = digest_of_files([a, b])
    assert len(first) == 16
    assert digest_of_files([b, a]) != first
    a.write_bytes(b"onet")
    b.write_bytes(b"wo")
    assert digest_of_files([a, b]) != first
    with pytest.raises(ModelFileError, match="No such file"):
        digest_of_files([tmp_path / "none"])


def test_an_interrupted_conversion_leaves_nothing(cache: Path) -> None:
    def interrupted(target: Path) -> None:
        target.mkdir()
        (target / "half").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_once("model", interrupted)
    assert list(cache.iterdir()) == []
    # A process that was killed could not tidy up.
    (cache / ".model.0.tmp").mkdir()
    (cache / ".model.0.tmp" / "half").write_text("half")

    def whole(target: Path) -> None:
        target.mkdir()
        (target / "whole").write_text("whole")

    assert convert_once("model", whole) == cache / "model"
    assert [p.name for p in (cache / "model").iterdir()] == ["whole"]
    assert not (cache / ".model.0.tmp").exists()
    assert convert_once("model", interrupted) == cache / "model"


def test_of_two_converters_one_waits_for_the_other(cache: Path) -> None:
    begun = threading.Event()
    calls: list[int] = []

    def slow(target: Path) -> None:
        calls.append(1)
        begun.set()
        time.sleep(0.2)
        target.write_text("whole")

    found: list[str] = []
    threads = [
        threading.Thread(target=lambda: found.append(convert_once("file", slow).read_text()))
        for _ in range(2)
    ]
    threads[0].start()
    assert begun.wait(240)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert found == ["whole", "whole"]
    assert len(calls) == 1


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CONTSTIM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(OutputError) as error:
        convert_once("model", lambda target: None)
    assert str(error.value) == (
        f"cannot write the cache folder '{tmp_path / 'file' / 'cache'}': Not a directory; set "
        "CONTSTIM_CACHE to a folder that can be written"
    )
