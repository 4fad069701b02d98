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
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from contstim.cli.common import refuse_overwriting, resumable, tell
from contstim.cli.parsing import (
    CommandParser,
    given,
    new_file,
    number,
    positive,
    threads,
    whole_number,
)
from contstim.errors import InputError
from contstim.models.check import check_model
from contstim.models.devices import torch_threads
from contstim.models.registry import bundled_models, families, load_model, model_card
from contstim.tables import numbered_lines
from contstim.text import PUNCTUATION_POLICIES, pool, read_sentences, read_words
from contstim.text.language import Language
from contstim.text.languages import language_called, language_of
from contstim.training.options import (
    DISTILLING,
    FINETUNING,
    AdaptOptions,
    FitOptions,
    TrainingOptions,
)

T = TypeVar("T")


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
    _add_train(actions.add_parser("train", help="train a model from text"))
    _add_adapt(actions.add_parser("adapt", help="go on training a masked model on a text"))
    _add_distill(actions.add_parser("distill", help="teach a fast network a model's scores"))
    _add_finetune(actions.add_parser("finetune", help="make an acceptability classifier"))


def run(args: argparse.Namespace) -> int:
    """Do what the subcommand says."""
    actions = {
        "list": _list,
        "info": _info,
        "check": _check,
        "train": _train,
        "adapt": _adapt,
        "distill": _distill,
        "finetune": _finetune,
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


def _add_train(parser: CommandParser) -> None:
    """Add one subcommand for each kind of model that can be trained."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    ngram = kinds.add_parser("ngram", help="n-gram model, modified Kneser-Ney, as ARPA")
    _add_text(ngram)
    ngram.add("--order N", "", whole_number(1, 100), default=3)
    ngram.add("--closed", "no unknown-word class: an unknown word is always an error")
    ngram.add(
        "--cutoffs N,N,...",
        "for each order the count up to which n-grams are left out, as lmplz --prune",
        _list_of(whole_number(0), "0,0,1"),
        default=(),
    )
    what = "leave out n-grams that raise the perplexity by less than this share, e.g. 1e-8"
    ngram.add("--entropy SHARE", what, number(0), default=0.0)
    ngram.add(
        "--fallback D1,D2,D3",
        "discounts to use where the text is too small to estimate them, e.g. 0.5,1,1.5",
        _list_of(number(0, 3), "0.5,1,1.5"),
    )
    for kind, summary in (("rnn", "recurrent network, ReLU units"), ("lstm", "LSTM network")):
        network = kinds.add_parser(kind, help=summary)
        _add_text(network)
        _add_network(network)


def _add_text(parser: CommandParser) -> None:
    what = "text, one sentence per line"
    parser.add_argument("text", nargs="+", type=Path, help=what)
    parser.add("--out FILE", "model to write", new_file, required=True)
    parser.add(
        "--punctuation",
        "what to do with punctuation: keep words as given (default), split or drop it; use the "
        "same in the model's spec, e.g. ngram:FILE?punctuation=split",
        choices=PUNCTUATION_POLICIES,
        default="keep",
    )
    parser.add(
        "--language CODE",
        "what cuts sentences into words: fr after l', zh by a segmenter, others between spaces "
        "(default: en); use the same in the model's spec",
        default="en",
    )
    parser.add("--vocabulary FILE", "words to keep, one a line", Path)
    parser.add("--min-count N", "keep words seen at least N times", positive)


def _add_network(parser: CommandParser) -> None:
    parser.add("--embedding N", "width of the words' vectors", positive, default=256)
    parser.add("--hidden N", "units of the hidden layer", positive, default=512)
    what = "an output layer of its own, as published, instead of the embedding's weights"
    parser.add("--untied", what)
    parser.add_fields(TrainingOptions, "learning_rate", "epochs", "full_epochs", "batch_tokens")
    parser.add(
        "--weight W",
        "how often each text is seen in a pass, once a text",
        number(above=0, most=10_000),
        several=True,
    )
    parser.add("--heldout FILE", "held-out text (default: 1 %% of the text)", Path)
    parser.add_fields(TrainingOptions, "precision")
    sizes = ("float32", "float16", "int8")
    parser.add("--storage", "of the file", choices=sizes, default="float32")
    parser.add_device()
    parser.add_seed()


def _train(args: argparse.Namespace) -> int:
    heldout = getattr(args, "heldout", None)
    refuse_overwriting(args.out, [*args.text, args.vocabulary, heldout])
    return _train_ngram(args) if args.kind == "ngram" else _train_network(args)


def _list_of(read: Callable[[str], T], example: str) -> Callable[[str], tuple[T, ...]]:
    """Return a reader of numbers with commas between them, for ``type=``."""

    def read_list(text: str) -> tuple[T, ...]:
        try:
            return tuple(read(part.strip()) for part in text.split(","))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{error}; write numbers like {example}") from None

    return read_list


def _train_ngram(args: argparse.Namespace) -> int:
    from contstim.training.ngram import NgramVocabulary, train_ngram

    if args.vocabulary is not None and args.min_count is not None:
        raise InputError("give --vocabulary or --min-count, not both")
    words = read_words(args.vocabulary) if args.vocabulary else None
    vocabulary = NgramVocabulary(words=words, min_count=args.min_count or 1, closed=args.closed)
    if args.fallback is not None and len(args.fallback) != 3:
        raise InputError(f"--fallback needs three numbers, not {len(args.fallback)}")
    trained = train_ngram(
        args.text,
        args.out,
        order=args.order,
        punctuation=args.punctuation,
        vocabulary=vocabulary,
        cutoffs=args.cutoffs,
        entropy=args.entropy,
        fallback=args.fallback,
        language=_cut_by(args),
    )
    numbers = ", ".join(str(n) for n in trained.n_ngrams)
    print(
        f"{trained.path}: {numbers} n-grams of order 1 to {args.order}, from "
        f"{trained.n_sentences} sentences of {trained.n_tokens} tokens"
    )
    return 0


def _cut_by(args: argparse.Namespace) -> Language:
    """Return what cuts the text into words; say so if it seems to want another."""
    language, path = language_called(args.language), Path(args.text[0])
    if language.plain and path.is_file():
        seems = language_of(line for _, line in numbered_lines(path))
        if not seems.plain:
            tell(
                f"note: {path} seems to be {seems.name}, whose words do not all stand between "
                f"spaces; with --language {seems.code} they are cut as it has them"
            )
    return language


def _train_network(args: argparse.Namespace) -> int:
    from contstim.models.recurrent import NetworkConfig
    from contstim.training.recurrent import train_recurrent

    with resumable():
        record = train_recurrent(
            args.text,
            args.out,
            config=NetworkConfig(args.kind, args.embedding, args.hidden, tied=not args.untied),
            options=TrainingOptions(**given(args, TrainingOptions)),
            weights=args.weight,
            vocabulary=args.vocabulary,
            min_count=args.min_count or 5,
            heldout=args.heldout,
            punctuation=args.punctuation,
            storage=args.storage,
            device=args.device,
            language=_cut_by(args),
        )
    print(f"{args.out}: held-out perplexity {record['heldout_perplexity']:.2f} per token")
    return 0


def _add_adapt(parser: CommandParser) -> None:
    parser.description = (
        "Continue the pre-training of a masked transformer on a text, stop when the "
        "pseudo-perplexity of its held-out part falls no more, and write the best checkpoint as a "
        "folder for hf:FOLDER."
    )
    parser.add("base BASE", "a masked model's spec or folder")
    parser.add("--text FILE", "the domain, one sentence per line", Path, required=True)
    parser.add_out_folder()
    parser.add(
        "--dev FILE",
        "held-out text of the domain (default: a tenth of the text, at most 200 sentences)",
        Path,
    )
    parser.add(
        "--other FILE",
        "another corpus, to see what it costs there (default: the bundled pool, English)",
        Path,
    )
    parser.add_fields(AdaptOptions, "steps", "interval", "patience", "batch_tokens")
    parser.add_fields(AdaptOptions, "learning_rate")
    parser.add_seed()


def _adapt(args: argparse.Namespace) -> int:
    from contstim.training.adapting import adapt

    adaptation = adapt(
        args.base,
        read_sentences(args.text),
        Path(args.out),
        other=pool() if args.other is None else read_sentences(args.other),
        domain=None if args.dev is None else read_sentences(args.dev),
        options=AdaptOptions(**given(args, AdaptOptions)),
    )
    left_out = f", {adaptation.n_left_out} left out" if adaptation.n_left_out else ""
    print(
        f"{args.out}: {adaptation.n_train} sentences{left_out}, best after "
        f"{adaptation.after.step} steps"
    )
    print("pseudo-perplexity per token (per word)   before            after")
    before, after = adaptation.before, adaptation.after
    for name, n, perplexities in (
        ("domain", adaptation.n_domain, [(p.domain, p.domain_word) for p in (before, after)]),
        ("other", adaptation.n_other, [(p.other, p.other_word) for p in (before, after)]),
    ):
        cells = "  ".join(f"{token:7.2f} ({word:.2f})".ljust(16) for token, word in perplexities)
        print(f"{name + f', {n} sentences':<40} {cells}".rstrip())
    return 0


def _add_distill(parser: CommandParser) -> None:
    parser.add("teacher", "spec of the model to imitate, e.g. contstim:bert?metric=pll")
    what = "sentences to learn from, one a line, or a CSV with a column 'sentence'"
    parser.add("--text FILE", what, required=True)
    parser.add_out_folder()
    what = "encoder to start from, a folder, hub name or spec (default: the teacher's own)"
    parser.add("--base BASE", what)
    what = "sentences to measure the student on (default: a tenth of the text, at most 2,000)"
    parser.add("--heldout FILE", what)
    parser.add("--limit N", "use the first N sentences", positive)
    parser.add_cache("where the teacher's scores are kept (default: OUT.scores)")
    _add_fitting(parser, DISTILLING)


def _distill(args: argparse.Namespace) -> int:
    from contstim.training.distilling import distill

    refuse_overwriting(args.out, [args.text, args.heldout])
    sentences = read_sentences(args.text)[: args.limit]
    heldout = None if args.heldout is None else read_sentences(args.heldout)
    teacher = load_model(args.teacher)
    with resumable(), torch_threads(args.threads):
        record = distill(
            teacher,
            sentences,
            Path(args.out),
            base=args.base,
            heldout=heldout,
            options=FitOptions(**given(args, FitOptions)),
            cache=None if args.cache is None else Path(args.cache),
            seed=args.seed,
            device=args.device,
        )
    fit, training = record["heldout"], record["training"]
    print(
        f"student:{args.out}: Pearson {fit['pearson']:.4f}, Spearman {fit['spearman']:.4f}, "
        f"error {fit['rmse']:.3f} (standard deviation {fit['sd']:.3f}) on "
        f"{fit['sentences']} sentences; {training['sentences']} learnt from, "
        f"{training['left_out']} left out"
    )
    return 0


def _add_finetune(parser: CommandParser) -> None:
    parser.add("base", "encoder to start from: a folder, hub name or spec, e.g. contstim:bert")
    parser.add("--task", "", choices=("cola",), default="cola")
    parser.add(
        "--data FOLDER",
        "folder with in_domain_train.tsv, in_domain_dev.tsv and out_of_domain_dev.tsv",
        Path,
        required=True,
    )
    parser.add_out_folder()
    what = "networks to train that are not degenerate"
    parser.add("--restarts N", what, whole_number(1, 1000), default=10)
    _add_fitting(parser, FINETUNING)


def _finetune(args: argparse.Namespace) -> int:
    from contstim.training.finetuning import finetune

    with resumable(), torch_threads(args.threads):
        record = finetune(
            args.base,
            args.data,
            Path(args.out),
            task=args.task,
            restarts=args.restarts,
            options=FitOptions(**given(args, FitOptions)),
            seed=args.seed,
            device=args.device,
        )
    for part, mcc in record["mcc"].items():
        print(
            f"{part}: Matthews' correlation {mcc['mean']:.3f} (sd {mcc['sd']:.3f}), best "
            f"{mcc['best']:.3f}, majority of {len(record['majority'])} {mcc['majority']:.3f}"
        )
    degenerate = [row["seed"] for row in record["degenerate"]]
    replaced = f", seeds {degenerate} degenerate" if degenerate else ""
    print(f"classifier:{args.out}: best {record['best']}{replaced}")
    return 0


def _add_fitting(parser: CommandParser, usual: FitOptions) -> None:
    """Add the arguments on how a network is trained, as `usual` where they are not given."""
    parser.add_fields(usual, "epochs", "batch", "learning_rate")
    shown = "all, and embeddings" if usual.layers is None else usual.layers
    what = f"train the upper N layers only, the others run once (default: {shown})"
    parser.add("--layers N", what, positive, default=usual.layers)
    parser.add_fields(usual, "precision")
    parser.add_device()
    parser.add("--threads N", "threads of PyTorch", threads, default=1)
    parser.add_seed()
