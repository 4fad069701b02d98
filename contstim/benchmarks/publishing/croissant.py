"""Croissant metadata of a published folder, with the RAI fields that venues ask for.

Source: Croissant 1.1 and Croissant RAI 1.0 (MLCommons), as mlcroissant 1.1.1 checks them; the
fields are those that the NeurIPS 2026 track on evaluations and datasets requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from contstim.benchmarks.publishing.about import About
from contstim.files import digest

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "arrayShape": "cr:arrayShape",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "containedIn": "cr:containedIn",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "name": {"@container": "@language"},
    "parentField": "cr:parentField",
    "path": "cr:path",
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def croissant(
    about: About,
    date: str,
    contents: Mapping[str, bytes],
    tables: Mapping[str, pd.DataFrame],
    descriptions: Mapping[str, str],
    facts: Mapping[str, str],
) -> dict[str, Any]:
    """Return the metadata, a JSON value.

    Parameters
    ----------
    about
        What is said of the data.
    date
        Of their publication, ISO 8601.
    contents
        The CSV files, by their paths.
    tables
        What they hold.
    descriptions
        What columns hold, by their names.
    facts
        What was counted or done: ``collection``, ``personal``, ``processing``, ``ceiling`` ...,
        each a sentence or more.
    """
    stated = about.responsible
    address = about.url.rstrip("/")
    value: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": [
            "http://mlcommons.org/croissant/1.1",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "name": about.name,
        "alternateName": about.title,
        "description": about.description,
        "url": about.url or (f"https://doi.org/{about.doi}" if about.doi else None),
        "license": f"https://spdx.org/licenses/{about.licence}.html",
        "version": about.version,
        "datePublished": date,
        "inLanguage": about.language,
        "citeAs": about.citation or about.cited(date),
        "isLiveDataset": True,
        "creator": [
            {
                "@type": "sc:Person",
                "name": f"{author.given} {author.family}",
                **({"url": f"https://orcid.org/{author.orcid}"} if author.orcid else {}),
            }
            for author in about.authors
        ],
        "keywords": [
            "language models",
            "human judgements",
            "acceptability",
            "controversial stimuli",
        ],
        "rai:dataCollection": f"{stated.collection} {facts['collection']}",
        "rai:dataCollectionType": ["Experiments", "Surveys"],
        "rai:dataPreprocessingProtocol": [facts["processing"]],
        "rai:dataAnnotationProtocol": [facts["task"]],
        "rai:annotationsPerItem": facts["answers"],
        "rai:dataLimitations": [stated.limitations],
        "rai:dataBiases": [stated.biases],
        "rai:dataUseCases": [stated.uses],
        "rai:dataSocialImpact": stated.impact,
        "rai:personalSensitiveInformation": [facts["personal"]],
        "rai:dataReleaseMaintenancePlan": stated.maintenance or None,
        "rai:hasSyntheticData": any(text.synthetic for text in about.texts),
        "prov:wasDerivedFrom": [
            f"{text.name}: {text.source} ({text.licence})" for text in about.texts
        ],
        "prov:wasGeneratedBy": facts["made"],
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": path,
                "name": path.rpartition("/")[2],
                "description": facts.get(path, path),
                "contentUrl": f"{address}/{path}" if address else path,
                "contentSize": f"{len(content)} B",
                "encodingFormat": "text/csv",
                "sha256": digest(content),
            }
            for path, content in contents.items()
        ],
        "recordSet": [
            _records(path, table, descriptions) for path, table in tables.items() if len(table)
        ],
    }
    return {key: part for key, part in value.items() if part is not None}


def _records(path: str, table: pd.DataFrame, descriptions: Mapping[str, str]) -> dict[str, Any]:
    name = path.rpartition("/")[2].removesuffix("_data.csv")
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{name}/{column}",
                "name": f"{name}/{column}",
                "description": descriptions.get(str(column), "A column of the study's own."),
                "dataType": _kind(table[column]),
                "source": {"fileObject": {"@id": path}, "extract": {"column": str(column)}},
            }
            for column in table
        ],
    }


def _kind(column: pd.Series[Any]) -> str:
    """Return the type of a column ; whole numbers with missing values are floats."""
    kinds = {"b": "sc:Boolean", "i": "sc:Integer", "u": "sc:Integer", "f": "sc:Float"}
    return kinds.get(column.dtype.kind, "sc:Text")
