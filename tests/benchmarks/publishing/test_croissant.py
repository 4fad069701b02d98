"""Croissant metadata, of which `mlcroissant` is the judge where it is installed."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from contstim.benchmarks.publishing.croissant import croissant

#: What NeurIPS 2026 requires of the RAI fields.
NEEDED = (
    "rai:dataLimitations",
    "rai:dataBiases",
    "rai:personalSensitiveInformation",
    "rai:dataUseCases",
    "rai:dataSocialImpact",
    "rai:hasSyntheticData",
    "prov:wasDerivedFrom",
    "prov:wasGeneratedBy",
)


@pytest.fixture
def value(written: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((written / "out" / "croissant.json").read_text("utf-8"))
    return read


def test_it_has_what_the_specification_and_venues_require(value: dict[str, Any]) -> None:
    assert value["@type"] == "sc:Dataset"
    assert "http://mlcommons.org/croissant/1.1" in value["conformsTo"]
    for key in ("name", "description", "license", "version", "datePublished", "creator", "citeAs"):
        assert value[key], key
    assert all(key in value and value[key] != "" for key in NEEDED)
    assert croissant.__module__ == "contstim.benchmarks.publishing.croissant"


def test_files_columns_and_types_are_those_of_the_tables(
    value: dict[str, Any], written: Path
) -> None:
    files = {part["@id"]: part for part in value["distribution"]}
    assert len(files) == 4
    for path, part in files.items():
        content = (written / "out" / path).read_bytes()
        assert part["sha256"] == hashlib.sha256(content).hexdigest()
        assert part["contentSize"] == f"{len(content)} B"
    ids = [part["@id"] for part in value["recordSet"]] + [*files]
    for records in value["recordSet"]:
        places = {field["source"]["fileObject"]["@id"] for field in records["field"]}
        (path,) = places
        columns = [field["source"]["extract"]["column"] for field in records["field"]]
        table = pd.read_csv(written / "out" / path)
        assert columns == [*table]
        for field, column in zip(records["field"], columns, strict=True):
            ids.append(field["@id"])
            if field["dataType"] == "sc:Float":
                assert pd.api.types.is_numeric_dtype(table[column])
            if field["dataType"] == "sc:Integer":
                assert pd.api.types.is_integer_dtype(table[column])
    assert len(set(ids)) == len(ids)


def test_mlcroissant_accepts_it_and_reads_every_row(written: Path) -> None:
    mlc = pytest.importorskip("mlcroissant", reason="needs mlcroissant, of which much is required")
    data = mlc.Dataset(jsonld=written / "out" / "croissant.json")
    assert not data.metadata.ctx.issues.errors
    rows = {one.uuid: sum(1 for _ in data.records(one.uuid)) for one in data.metadata.record_sets}
    assert rows["study-walks_task-choices"] == 120
