"""Commands ``contstim models train``, ``adapt``, ``distill`` and ``finetune``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

import contstim
from contstim import training
from contstim.cli.application import create_application
from contstim.cli.common import explain_interruption, print_message, refuse_overwriting
from contstim.cli.parameters import (
    File,
    NewFile,
    OutputFolder,
    PositiveInteger,
    RandomSeed,
    Spec,
    Text,
    custom_parameter,
    float_parameter,
    integer_parameter,
    parse_floats,
)
from contstim.errors import InputError
from contstim.models.devices import faster_precision, limit_torch_threads, resolve_device
from contstim.text import pool, read_sentences, read_words
from contstim.text.language import Language
from contstim.text.languages import detect_language, get_language
from contstim.text_files import read_lines

TRAIN = """Train an n-gram model or a recurrent network on a text.

examples:
  contstim models train ngram text.txt --order 3 --out mine.arpa.gz
  contstim models train lstm text.txt --out mine.safetensors
"""

NGRAM = """Train an n-gram model with modified Kneser-Ney smoothing and write it in ARPA format.

examples:
  contstim models train ngram text.txt --order 3 --punctuation split --out mine.arpa.gz
"""

NETWORK = """Train a recurrent network.

examples:
  contstim models train lstm text.txt --punctuation split --out mine.safetensors
"""

ADAPT = """Continue the pre-training of a masked transformer on text of a domain.

Training stops when the pseudo-perplexity of held-out text no longer decreases. The best
checkpoint is written to a folder, which is loaded as hf:FOLDER.

examples:
  contstim models adapt hf:FOLDER --text text.txt --out adapted
"""

DISTILL = """Train a fast network to reproduce the sentence scores of a model.

examples:
  contstim models distill "hf:FOLDER?metric=pll" --text text.txt --out my-student
"""

FINETUNE = """Train acceptability classifiers.

examples:
  contstim models finetune hf:FOLDER --from cola --out my-classifier
"""

MATERIAL = Group.create_ordered("text and words")
MODEL = Group.create_ordered("model")
TRAINING = Group.create_ordered("training")
OUTPUT = Group.create_ordered("running and output")

Rate = Annotated[
    float,
    float_parameter(above=0, maximum=1, metavar="RATE"),
    Parameter(group=TRAINING, help="maximum learning rate of AdamW"),
]
Epochs = Annotated[float, float_parameter(0, 10_000, "N"), Parameter(group=TRAINING)]
TrainingCount = Annotated[PositiveInteger, Parameter(group=TRAINING)]
Width = Annotated[PositiveInteger, Parameter(group=MODEL)]
BatchTokens = Annotated[
    PositiveInteger, Parameter(group=TRAINING, help="maximum number of tokens per batch")
]
Precision = Annotated[
    Literal["float32", "bfloat16"],
    Parameter(group=TRAINING, metavar="PRECISION", help="precision of matrix products"),
]
OptionalFile = Annotated[File | None, Parameter(group=MATERIAL)]
Device = Annotated[
    Text, Parameter(group=OUTPUT, metavar="DEVICE", help="device of the network, such as cuda:0")
]
Threads = Annotated[
    int, integer_parameter(1, 1024), Parameter(group=OUTPUT, help="threads of PyTorch")
]
Seed = Annotated[RandomSeed, Parameter(group=OUTPUT, help="random seed")]
NewModel = Annotated[NewFile, Parameter(group=OUTPUT, help="model to write")]
NewFolder = Annotated[OutputFolder, Parameter(group=OUTPUT, help="folder to write")]
Texts = Annotated[tuple[File, ...], Parameter(metavar="TEXT", help="texts, one sentence per line")]


@Parameter(name="*", group=MATERIAL)
@dataclass(frozen=True)
class TextOptions:
    """Options for splitting texts into words, and for the vocabulary.

    Attributes
    ----------
    punctuation
        keep words as they are, split punctuation off, or drop it; give the same value in the
        specification of the model
    language
        language of the text, which determines how sentences are split into words; give the same
        value in the specification of the model
    vocabulary
        words of the model, one per line
    min_count
        minimum number of occurrences of a word [n-grams 1, networks 5]
    """

    punctuation: Annotated[Literal["keep", "split", "drop"], Parameter(metavar="RULE")] = "keep"
    language: Annotated[Text, Parameter(metavar="CODE")] = "en"
    vocabulary: File | None = None
    min_count: PositiveInteger | None = None

    def resolve_language(self, text: str) -> Language:
        """Return the language whose rules are used to split the training text into words.

        Print a note if this language uses spaces, but the text seems to be in one that does not.

        Parameters
        ----------
        text
            Path of the training text.
        """
        language, path = get_language(self.language), Path(text)
        if language.is_space_delimited and path.is_file():
            detected = detect_language(line for _, line in read_lines(path))
            # Words are split at spaces, which is wrong for languages such as Chinese.
            if not detected.is_space_delimited:
                print_message(
                    f"note: {path} seems to be {detected.name}, in which not all words are "
                    f"separated by spaces; use --language {detected.code} to split them"
                )
        return language


DEFAULT_TEXT_OPTIONS = TextOptions()


def train_ngram(
    text: Texts,
    /,
    *,
    out: NewModel,
    words: TextOptions = DEFAULT_TEXT_OPTIONS,
    order: Annotated[int, integer_parameter(1, 100), Parameter(group=MODEL)] = 3,
    closed: Annotated[bool, Parameter(group=MODEL)] = False,
    entropy: Annotated[float, float_parameter(0, metavar="SHARE"), Parameter(group=MODEL)] = 0.0,
    fallback: Annotated[
        Any, custom_parameter(parse_floats, "N,N,N"), Parameter(group=MODEL)
    ] = None,
) -> None:
    """Train an n-gram model.

    Parameters
    ----------
    order
        maximum length of an n-gram
    closed
        treat every unknown word as an error, instead of giving all unknown words one probability
    entropy
        relative increase of the perplexity below which an n-gram is removed, e.g. 1e-8
    fallback
        three Kneser-Ney discounts to use if the text is too small to estimate them, e.g. 0.5,1,1.5
    """
    refuse_overwriting(out, [*text, words.vocabulary])
    if words.vocabulary is not None and words.min_count is not None:
        raise InputError("give --vocabulary or --min-count, not both")
    listed_words = read_words(words.vocabulary) if words.vocabulary else None
    # Without a list, the vocabulary consists of the words of the text.
    trained = training.train_ngram(
        [Path(name) for name in text],
        Path(out),
        order=order,
        punctuation=words.punctuation,
        vocabulary=training.NgramVocabulary(listed_words, words.min_count or 1, closed),
        entropy=entropy,
        fallback=fallback,
        language=words.resolve_language(text[0]),
    )
    counts = ", ".join(str(n) for n in trained.n_ngrams)
    print(
        f"{trained.path}: {counts} n-grams of order 1 to {order}, from {trained.n_sentences} "
        f"sentences of {trained.n_tokens} tokens"
    )


def train_network(
    text: Texts,
    /,
    *,
    cell: Annotated[str, Parameter(parse=False)],
    out: NewModel,
    words: TextOptions = DEFAULT_TEXT_OPTIONS,
    heldout: OptionalFile = None,
    weight: Annotated[
        tuple[float, ...],
        float_parameter(above=0, maximum=10_000, metavar="W"),
        Parameter(group=MATERIAL),
    ] = (),
    embedding: Width = 256,
    hidden: Width = 512,
    untied: Annotated[bool, Parameter(group=MODEL)] = False,
    storage: Annotated[
        Literal["float32", "float16", "int8"], Parameter(group=MODEL, metavar="TYPE")
    ] = "float32",
    epochs: Epochs = 10.0,
    full_epochs: Epochs = 1.0,
    batch_tokens: BatchTokens = 2048,
    learning_rate: Rate = 0.002,
    precision: Precision = "float32",
    device: Device = "cpu",
    seed: Seed = 0,
) -> None:
    """Train a recurrent network.

    Parameters
    ----------
    heldout
        held-out text [1 % of the text]
    weight
        number of times that a text is used in each epoch; give one value per text
    embedding
        dimension of the word embedding
    hidden
        number of hidden units
    untied
        separate output weights, as in Golan et al. (2023), instead of the embedding
    storage
        data type of the stored weights
    epochs
        passes over the text with a sampled softmax
    full_epochs
        passes with the full softmax, in addition to --epochs
    """
    from contstim.models.recurrent import NetworkConfig

    refuse_overwriting(out, [*text, words.vocabulary, heldout])
    # The subcommand, `rnn` or `lstm`, sets the type of the recurrent `cell`.
    with explain_interruption():
        record = training.train_recurrent(
            [Path(name) for name in text],
            Path(out),
            config=NetworkConfig(cell, embedding, hidden, tied=not untied),
            options=training.TrainingOptions(
                epochs=epochs,
                full_epochs=full_epochs,
                batch_tokens=batch_tokens,
                learning_rate=learning_rate,
                precision=precision,
                seed=seed,
            ),
            weights=list(weight) or None,
            vocabulary=Path(words.vocabulary) if words.vocabulary else None,
            min_count=words.min_count or 5,
            heldout=Path(heldout) if heldout else None,
            punctuation=words.punctuation,
            storage=storage,
            device=device,
            language=words.resolve_language(text[0]),
        )
    print(f"{out}: held-out perplexity {record['heldout_perplexity']:.2f} per token")


def adapt(
    base: Annotated[Text, Parameter(metavar="BASE")],
    /,
    *,
    text: Annotated[File, Parameter(group=MATERIAL)],
    out: NewFolder,
    heldout: OptionalFile = None,
    other: OptionalFile = None,
    steps: TrainingCount = 1000,
    interval: TrainingCount = 50,
    patience: TrainingCount = 3,
    batch_tokens: BatchTokens = 1024,
    learning_rate: Rate = 5e-5,
    seed: Seed = 0,
) -> None:
    """Adapt a masked transformer.

    Parameters
    ----------
    base
        masked model to adapt: a model specification string such as contstim:bert, or a folder
    text
        text of the domain, one sentence per line
    heldout
        held-out text of the domain [a tenth of the text, at most 200 sentences]
    other
        another corpus for evaluation [the bundled English pool]
    steps
        maximum number of steps
    interval
        steps between evaluations
    patience
        evaluations without improvement before training stops
    """
    result = training.adapt(
        base,
        read_sentences(text),
        Path(out),
        other=pool() if other is None else read_sentences(other),
        domain=None if heldout is None else read_sentences(heldout),
        options=training.AdaptOptions(
            steps=steps,
            interval=interval,
            patience=patience,
            batch_tokens=batch_tokens,
            learning_rate=learning_rate,
            seed=seed,
        ),
    )
    # Compare the model before and after the adaptation, on text of the domain and on other text.
    left_out = f", {result.n_left_out} left out" if result.n_left_out else ""
    print(f"{out}: {result.n_train} sentences{left_out}, best after {result.after.step} steps")
    print("pseudo-perplexity per token (per word)   before            after")
    evaluations = result.before, result.after
    domain_cells = [f"{e.domain:7.2f} ({e.domain_word:.2f})" for e in evaluations]
    other_cells = [f"{e.other:7.2f} ({e.other_word:.2f})" for e in evaluations]
    print("{:<40} {:<17} {}".format(f"domain, {result.n_domain} sentences", *domain_cells))
    print("{:<40} {:<17} {}".format(f"other, {result.n_other} sentences", *other_cells))


@Parameter(name="*", group=TRAINING)
@dataclass(frozen=True)
class FitParameters:
    """Training options. None selects the default in brackets, which depends on the kind of model.

    Attributes
    ----------
    epochs
        passes over the text [students 5, classifiers 3]
    batch
        maximum number of sentences per batch
    learning_rate
        maximum learning rate of AdamW [0.0768 divided by the network's width]
    layers
        number of upper layers to train [students all, classifiers 2]
    precision
        precision of matrix products [the faster one on this device]
    """

    epochs: Annotated[int | None, integer_parameter(1, 10_000)] = None
    batch: PositiveInteger = 32
    learning_rate: Annotated[float | None, float_parameter(above=0, maximum=1, metavar="RATE")] = (
        None
    )
    layers: PositiveInteger | None = None
    precision: Annotated[Literal["float32", "bfloat16"] | None, Parameter(metavar="PRECISION")] = (
        None
    )
    device: Device = "cpu"
    threads: Threads = 1
    seed: Seed = 0

    def with_defaults(self, defaults: training.FitOptions) -> training.FitOptions:
        """Return the training options, with defaults for the epochs, layers and precision."""
        precision = self.precision
        if precision is None:
            precision = faster_precision(resolve_device(self.device))
            print_message(f"--precision {precision}, which is faster on this device")
        # The default numbers of epochs and layers differ between students and classifiers.
        return training.FitOptions(
            epochs=self.epochs or defaults.epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            layers=self.layers or defaults.layers,
            precision=precision,
        )


DEFAULT_FIT_PARAMETERS = FitParameters()


def distill(
    teacher: Spec,
    /,
    *,
    text: Annotated[File, Parameter(group=MATERIAL)],
    out: NewFolder,
    base: Annotated[Text | None, Parameter(group=MODEL, metavar="BASE")] = None,
    heldout: OptionalFile = None,
    limit: Annotated[PositiveInteger | None, Parameter(group=MATERIAL)] = None,
    cache: Annotated[OutputFolder | None, Parameter(group=OUTPUT)] = None,
    parameters: FitParameters = DEFAULT_FIT_PARAMETERS,
) -> None:
    """Train a fast network, the student, to reproduce the scores of another model, the teacher.

    Parameters
    ----------
    teacher
        model to reproduce, e.g. contstim:bert?metric=pll
    text
        text to train on, one sentence per line, or a CSV file with a column 'sentence'
    base
        pretrained encoder: a folder, a name on the Hugging Face hub, or a model specification
        string such as contstim:bert [the teacher's encoder]
    heldout
        held-out text for the evaluation [a tenth of the text, at most 2,000 sentences]
    limit
        number of sentences to use, from the start of the text [all]
    cache
        folder for the teacher's scores [OUT.scores]
    """
    refuse_overwriting(out, [text, heldout])
    sentences = read_sentences(text)[:limit]
    # Saved scores of the teacher are used again if an interrupted command is repeated.
    with explain_interruption(), limit_torch_threads(parameters.threads):
        record = training.distill(
            contstim.load_model(teacher),
            sentences,
            Path(out),
            base=base,
            heldout=None if heldout is None else read_sentences(heldout),
            options=parameters.with_defaults(training.DISTILLATION_DEFAULTS),
            cache=None if cache is None else Path(cache),
            seed=parameters.seed,
            device=parameters.device,
        )
    fit, counts = record["heldout"], record["training"]
    print(
        f"student:{out}: Pearson {fit['pearson']:.4f}, Spearman {fit['spearman']:.4f}, error "
        f"{fit['rmse']:.3f} (standard deviation {fit['sd']:.3f}) on {fit['sentences']} sentences; "
        f"trained on {counts['sentences']}, {counts['left_out']} left out"
    )


def finetune(
    base: Annotated[Text, Parameter(metavar="BASE")],
    /,
    *,
    source: Annotated[File, Parameter(name="--from", group=MATERIAL, metavar="FOLDER")],
    out: NewFolder,
    restarts: Annotated[int, integer_parameter(1, 1000), Parameter(group=TRAINING)] = 10,
    parameters: FitParameters = DEFAULT_FIT_PARAMETERS,
) -> None:
    """Fine-tune an encoder several times to classify sentences as acceptable or unacceptable.

    Parameters
    ----------
    base
        pretrained encoder: a folder, a name on the Hugging Face hub, or a model specification
        string such as contstim:bert
    source
        folder with in_domain_train.tsv, in_domain_dev.tsv and out_of_domain_dev.tsv
    restarts
        number of training runs with different seeds; a run that ends with the same label for all
        sentences is not counted, and repeated with another seed
    """
    with explain_interruption(), limit_torch_threads(parameters.threads):
        record = training.finetune(
            base,
            Path(source),
            Path(out),
            restarts=restarts,
            options=parameters.with_defaults(training.FINETUNING_DEFAULTS),
            seed=parameters.seed,
            device=parameters.device,
        )
    # Summarise all training runs (restarts) by development set.
    for name, mcc in record["mcc"].items():
        print(
            f"{name}: Matthews' correlation {mcc['mean']:.3f} (sd {mcc['sd']:.3f}), best "
            f"{mcc['best']:.3f}, majority of {len(record['majority'])} {mcc['majority']:.3f}"
        )
    seeds = [row["seed"] for row in record["degenerate"]]
    replaced = f", seeds {seeds} degenerate" if seeds else ""
    print(f"classifier:{out}: best {record['best']}{replaced}")


train = create_application("train", TRAIN)
train.command(create_application("ngram", NGRAM, train_ngram))
for _cell in ("rnn", "lstm"):
    train.command(create_application(_cell, NETWORK, partial(train_network, cell=_cell)))
#: Subcommands of ``contstim models``.
SUBCOMMANDS = (
    train,
    create_application("adapt", ADAPT, adapt),
    create_application("distill", DISTILL, distill),
    create_application("finetune", FINETUNE, finetune),
)
