"""Train the bundled RNN or LSTM and export it with int8 matrices.

Usage: python models/recurrent.py {rnn,lstm} BUILD_FOLDER [--epochs E] [--full-epochs E]

BUILD_FOLDER is what ``models/prepare.py`` wrote. The float32 network is written there as
``lstm.safetensors`` or ``rnn.safetensors`` (a killed run continues), the small one to
``models/bundled/``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from contstim.models.recurrent import NetworkConfig, load_network
from contstim.training.corpus import TokenCorpus, read_text
from contstim.training.network_files import save_network
from contstim.training.options import TrainingOptions
from contstim.training.recurrent import perplexity, train_recurrent

# Narrower than the 256 of Golan et al. so that a file is about 8 MB.
EMBEDDING = 208
EPOCHS = {"lstm": (1.5, 0.06), "rnn": (1.0, 0.03)}


def main() -> None:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cell", choices=("rnn", "lstm"))
    parser.add_argument("build", type=Path)
    parser.add_argument("--epochs", type=float)
    parser.add_argument("--full-epochs", type=float)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bundled", type=Path, default=Path(__file__).parent / "bundled")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    epochs, full_epochs = EPOCHS[args.cell]
    trained = args.build / f"{args.cell}.safetensors"
    record = train_recurrent(
        [args.build / "train.txt"],
        trained,
        config=NetworkConfig(args.cell, embedding=EMBEDDING, hidden=512),
        options=TrainingOptions(
            epochs=epochs if args.epochs is None else args.epochs,
            full_epochs=full_epochs if args.full_epochs is None else args.full_epochs,
            precision="bfloat16",
            interval=1000,
            heldout_tokens=15_000,
        ),
        vocabulary=args.build / "vocabulary.txt",
        heldout=args.build / "heldout.txt",
    )
    target = args.bundled / f"{args.cell}.safetensors"
    save_network(target, load_network(trained)[0], record, "int8")
    small = load_network(target)[0]
    heldout = read_text([args.build / "heldout.txt"], "keep")
    unseen = TokenCorpus.from_text(heldout, small.vocabulary, [1.0])
    print(
        f"held-out perplexity {record['heldout_perplexity']:.2f} as trained, "
        f"{perplexity(small, unseen):.2f} as exported ({target.stat().st_size / 1e6:.2f} MB)"
    )


if __name__ == "__main__":
    main()
