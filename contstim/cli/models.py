"""List, describe, check, train and adapt models.

Examples:
  contstim models list
  contstim models info contstim:trigram
  contstim models check contstim:lstm
  contstim models check hf:my-folder --sentences mine.txt
  contstim models train ngram text.txt --order 3 --out mine.arpa.gz
  contstim models train lstm text.txt --out mine.safetensors
  contstim models adapt hf:FOLDER --text text.txt --out adapted
  contstim models distill "hf:FOLDER?metric=pll" --text text.txt --out my-student
  contstim models finetune hf:FOLDER --task cola --data cola --out my-classifier
"""

from __future__ import annotations

import argparse

from contstim.cli import learn, train
from contstim.cli.parsing import CommandParser
from contstim.models.check import check_model
from contstim.models.registry import bundled_models, families, load_model, model_card
from contstim.text.sentence import read_sentences


def configure(parser: CommandParser) -> None:
    """Add the subcommands."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="list bundled models and model families")
    info = actions.add_parser("info", help="say what a model is and what it scores")
    info.add("spec", "a model spec, e.g. contstim:trigram")
    check = actions.add_parser("check", help="check that a model keeps the contract")
    check.add("spec", "a model spec")
    what = "sentences of several lengths to check it on (default: the bundled English pool)"
    check.add("--sentences FILE", what)
    train.configure(actions.add_parser("train", help="train a model from text"))
    learn.add_adapt(actions.add_parser("adapt", help="go on training a masked model on a text"))
    learn.add_distill(actions.add_parser("distill", help="teach a fast network a model's scores"))
    learn.add_finetune(actions.add_parser("finetune", help="make an acceptability classifier"))


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    actions = {
        "list": _list,
        "info": _info,
        "check": _check,
        "train": train.run,
        "adapt": learn.run_adapt,
        "distill": learn.run_distill,
        "finetune": learn.run_finetune,
    }
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    for name, entry in bundled_models().items():
        print(f"{'contstim:' + name:<30} {entry.summary}")
    for family in families().values():
        if family.name != "contstim":
            print(f"{family.name + ':PATH':<30} {family.summary}")
    return 0


def _info(args: argparse.Namespace) -> int:
    model = load_model(args.spec)
    print(f"spec     {model.spec}")
    print(f"event    {model.event}")
    print(f"digest   {model.event.digest} (event), {model.fingerprint} (weights)")
    card = model_card(model)
    if card is not None:
        print(f"\n{card.rstrip()}")
    return 0


def _check(args: argparse.Namespace) -> int:
    model = load_model(args.spec)
    sentences = None if args.sentences is None else read_sentences(args.sentences)
    for line in check_model(model, sentences):
        print(f"ok  {line}")
    return 0
