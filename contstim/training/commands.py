"""The kinds of ``contstim models`` that train models; `contstim.cli.models` adds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

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
    float_parameter,
    integer_parameter,
    parsed_by,
)
from contstim.errors import InputError
from contstim.text import pool, read_sentences, read_words
from contstim.text.language import Language
from contstim.text.languages import detect_language, get_language
from contstim.text_files import read_lines
from contstim.training.options import (
    DISTILLATION_DEFAULTS,
    FINETUNING_DEFAULTS,
    AdaptOptions,
    FitOptions,
    TrainingOptions,
)

TRAIN = """Train an n-gram model or a recurrent network on a text.

examples:
  contstim models train ngram text.txt --order 3 --out mine.arpa.gz
  contstim models train lstm text.txt --out mine.safetensors
"""

NGRAM = """Train an n-gram model with modified Kneser-Ney smoothing, written as ARPA.

examples:
  contstim models train ngram text.txt --order 3 --punctuation split --out mine.arpa.gz
"""

NETWORK = """Train a recurrent network.

examples:
  contstim models train lstm text.txt --punctuation split --out mine.safetensors
"""

ADAPT = """Continue the pre-training of a masked transformer on a text.

Stops when the pseudo-perplexity of held-out text no longer decreases, and writes the best
checkpoint as a folder for hf:FOLDER.

examples:
  contstim models adapt hf:FOLDER --text text.txt --out adapted
"""

DISTILL = """Train a fast network to reproduce the scores of a model.

examples:
  contstim models distill "hf:FOLDER?metric=pll" --text text.txt --out my-student
"""

FINETUNE = """Train acceptability classifiers.

examples:
  contstim models finetune hf:FOLDER --task cola --from cola --out my-classifier
"""

MATERIAL = Group.create_ordered("text and words")
MODEL = Group.create_ordered("model")
TRAINING = Group.create_ordered("training")
OUTPUT = Group.create_ordered("running and output")

_USUAL, _ADAPTING = TrainingOptions(), AdaptOptions()
_Number = TypeVar("_Number")

Rate = Annotated[float, float_parameter(above=0, most=1, metavar="RATE"), Parameter(group=TRAINING)]
Passes = Annotated[float, float_parameter(0, 10_000, "N"), Parameter(group=TRAINING)]
Count = Annotated[PositiveInteger, Parameter(group=TRAINING)]
Units = Annotated[PositiveInteger, Parameter(group=MODEL)]
Precision = Annotated[
    Literal["float32", "bfloat16"], Parameter(group=TRAINING, metavar="PRECISION")
]
Device = Annotated[Text, Parameter(group=OUTPUT, metavar="DEVICE")]
Threads = Annotated[int, integer_parameter(1, 1024), Parameter(group=OUTPUT)]
Seed = Annotated[RandomSeed, Parameter(group=OUTPUT)]
NewModel = Annotated[NewFile, Parameter(group=OUTPUT)]
NewFolder = Annotated[OutputFolder, Parameter(group=OUTPUT)]
Texts = Annotated[tuple[File, ...], Parameter(metavar="TEXT")]


@Parameter(name="*", group=MATERIAL)
@dataclass(frozen=True)
class Words:
    """How texts become words.

    Attributes
    ----------
    punctuation
        keep words as given, split punctuation off, or drop it; use the same in the model's spec
    language
        language that divides sentences into words; use the same in the model's spec
    vocabulary
        words to keep, one per line
    min_count
        minimum number of occurrences of a word to keep [1, of networks 5]
    """

    punctuation: Annotated[Literal["keep", "split", "drop"], Parameter(metavar="RULE")] = "keep"
    language: Annotated[Text, Parameter(metavar="CODE")] = "en"
    vocabulary: File | None = None
    min_count: PositiveInteger | None = None

    def division(self, text: str) -> Language:
        """Return the language that divides sentences; print if the text seems to need another."""
        spoken, path = get_language(self.language), Path(text)
        if spoken.is_space_delimited and path.is_file():
            seems = detect_language(line for _, line in read_lines(path))
            if not seems.is_space_delimited:
                print_message(
                    f"note: {path} seems to be {seems.name}, whose words do not all stand between "
                    f"spaces; with --language {seems.code} they are cut as it has them"
                )
        return spoken


USUAL_WORDS = Words()


def _numbers(read: Callable[[str], _Number], example: str) -> Parameter:
    """Return the parameter of numbers separated by commas."""

    def read_list(text: str) -> tuple[_Number, ...]:
        try:
            return tuple(read(part.strip()) for part in text.split(","))
        except ValueError:
            raise InputError(f"{text!r} are not such numbers; write them like {example}") from None

    return parsed_by(read_list, "N,N,N")


def _cutoff(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)


def _discount(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 3:
        raise ValueError(text)
    return value


def train_ngram(
    text: Texts,
    /,
    *,
    out: NewModel,
    words: Words = USUAL_WORDS,
    order: Annotated[int, integer_parameter(1, 100), Parameter(group=MODEL)] = 3,
    closed: Annotated[bool, Parameter(group=MODEL)] = False,
    cutoffs: Annotated[Any, _numbers(_cutoff, "0,0,1"), Parameter(group=MODEL)] = (),
    entropy: Annotated[float, float_parameter(0, metavar="SHARE"), Parameter(group=MODEL)] = 0.0,
    fallback: Annotated[Any, _numbers(_discount, "0.5,1,1.5"), Parameter(group=MODEL)] = None,
) -> None:
    """Train an n-gram model.

    Parameters
    ----------
    text
        texts, one sentence per line
    order
        maximum length of an n-gram
    closed
        no unknown-word class: an unknown word is always an error
    cutoffs
        for each order the count up to which n-grams are left out, as lmplz --prune
    entropy
        share by which leaving out an n-gram may raise the perplexity, e.g. 1e-8
    fallback
        three discounts for texts too small to estimate them, e.g. 0.5,1,1.5
    out
        model to write
    """
    from contstim.training.ngram import NgramVocabulary
    from contstim.training.ngram import train_ngram as train

    refuse_overwriting(out, [*text, words.vocabulary])
    if words.vocabulary is not None and words.min_count is not None:
        raise InputError("give --vocabulary or --min-count, not both")
    if fallback is not None and len(fallback) != 3:
        raise InputError(f"--fallback needs three numbers, not {len(fallback)}")
    listed = read_words(words.vocabulary) if words.vocabulary else None
    trained = train(
        [Path(name) for name in text],
        Path(out),
        order=order,
        punctuation=words.punctuation,
        vocabulary=NgramVocabulary(words=listed, min_count=words.min_count or 1, closed=closed),
        cutoffs=cutoffs,
        entropy=entropy,
        fallback=fallback,
        language=words.division(text[0]),
    )
    numbers = ", ".join(str(n) for n in trained.n_ngrams)
    print(
        f"{trained.path}: {numbers} n-grams of order 1 to {order}, from {trained.n_sentences} "
        f"sentences of {trained.n_tokens} tokens"
    )


def _network_trainer(kind: str) -> Callable[..., None]:
    """Return the command that trains networks of a kind."""

    def train_network(
        text: Texts,
        /,
        *,
        out: NewModel,
        words: Words = USUAL_WORDS,
        heldout: Annotated[File | None, Parameter(group=MATERIAL)] = None,
        weight: Annotated[
            tuple[float, ...],
            float_parameter(above=0, most=10_000, metavar="W"),
            Parameter(group=MATERIAL),
        ] = (),
        embedding: Units = 256,
        hidden: Units = 512,
        untied: Annotated[bool, Parameter(group=MODEL)] = False,
        storage: Annotated[
            Literal["float32", "float16", "int8"], Parameter(group=MODEL, metavar="TYPE")
        ] = "float32",
        epochs: Passes = _USUAL.epochs,
        full_epochs: Passes = _USUAL.full_epochs,
        batch_tokens: Count = _USUAL.batch_tokens,
        learning_rate: Rate = _USUAL.learning_rate,
        precision: Precision = "float32",
        device: Device = "cpu",
        seed: Seed = 0,
    ) -> None:
        """Train a recurrent network.

        Parameters
        ----------
        text
            texts, one sentence per line
        heldout
            held-out text [1 % of the text]
        weight
            how often each text is seen in a pass, once per text
        embedding
            width of the words' vectors
        hidden
            units of the hidden layer
        untied
            an output layer of its own, as published, instead of the embedding's weights
        storage
            type of the stored weights
        epochs
            passes over the text
        full_epochs
            further passes with the softmax over all words
        batch_tokens
            tokens of a batch
        learning_rate
            maximum learning rate of AdamW
        precision
            precision of matrix products
        device
            device of the network, such as cuda:0
        seed
            random seed
        out
            model to write
        """
        from contstim.models.recurrent import NetworkConfig
        from contstim.training.recurrent import train_recurrent

        refuse_overwriting(out, [*text, words.vocabulary, heldout])
        with explain_interruption():
            record = train_recurrent(
                [Path(name) for name in text],
                Path(out),
                config=NetworkConfig(kind, embedding, hidden, tied=not untied),
                options=TrainingOptions(
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
                language=words.division(text[0]),
            )
        print(f"{out}: held-out perplexity {record['heldout_perplexity']:.2f} per token")

    return train_network


def adapt(
    base: Annotated[Text, Parameter(metavar="BASE")],
    /,
    *,
    text: Annotated[File, Parameter(group=MATERIAL)],
    out: NewFolder,
    heldout: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    other: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    steps: Count = _ADAPTING.steps,
    interval: Count = _ADAPTING.interval,
    patience: Count = _ADAPTING.patience,
    batch_tokens: Count = _ADAPTING.batch_tokens,
    learning_rate: Rate = _ADAPTING.learning_rate,
    seed: Seed = 0,
) -> None:
    """Adapt a masked transformer.

    Parameters
    ----------
    base
        a masked model's spec or folder
    text
        text of the domain, one sentence per line
    heldout
        held-out text of the domain [a tenth of the text, at most 200 sentences]
    other
        another corpus on which the loss is measured [the bundled English pool]
    steps
        maximum number of steps
    interval
        steps between evaluations
    patience
        evaluations without improvement before training stops
    batch_tokens
        tokens of a batch
    learning_rate
        maximum learning rate of AdamW
    seed
        random seed
    out
        folder to write
    """
    from contstim.training.adaptation import adapt as adapt_model

    adaptation = adapt_model(
        base,
        read_sentences(text),
        Path(out),
        other=pool() if other is None else read_sentences(other),
        domain=None if heldout is None else read_sentences(heldout),
        options=AdaptOptions(
            steps=steps,
            interval=interval,
            patience=patience,
            batch_tokens=batch_tokens,
            learning_rate=learning_rate,
            seed=seed,
        ),
    )
    left_out = f", {adaptation.n_left_out} left out" if adaptation.n_left_out else ""
    print(
        f"{out}: {adaptation.n_train} sentences{left_out}, best after {adaptation.after.step} steps"
    )
    print("pseudo-perplexity per token (per word)   before            after")
    before, after = adaptation.before, adaptation.after
    for name, n, perplexities in (
        ("domain", adaptation.n_domain, [(p.domain, p.domain_word) for p in (before, after)]),
        ("other", adaptation.n_other, [(p.other, p.other_word) for p in (before, after)]),
    ):
        cells = "  ".join(f"{token:7.2f} ({word:.2f})".ljust(16) for token, word in perplexities)
        print(f"{name + f', {n} sentences':<40} {cells}".rstrip())


@Parameter(name="*", group=TRAINING)
@dataclass(frozen=True)
class Fitting:
    """How students and classifiers are trained.

    Attributes
    ----------
    epochs
        passes over the text [students 5, classifiers 3]
    batch
        sentences of a batch
    learning_rate
        maximum learning rate of AdamW [0.0768 over the network's width]
    layers
        number of upper layers that are trained [students all, classifiers 2]
    precision
        precision of matrix products
    device
        device of the network, such as cuda:0
    threads
        threads of PyTorch
    seed
        random seed
    """

    epochs: Annotated[int | None, integer_parameter(1, 10_000)] = None
    batch: PositiveInteger = DISTILLATION_DEFAULTS.batch
    learning_rate: Annotated[float | None, float_parameter(above=0, most=1, metavar="RATE")] = None
    layers: PositiveInteger | None = None
    precision: Precision = "bfloat16"
    device: Device = "cpu"
    threads: Threads = 1
    seed: Seed = 0

    def options(self, usual: FitOptions) -> FitOptions:
        """Return the options of the training, as `usual` where they are not given."""
        return FitOptions(
            epochs=self.epochs or usual.epochs,
            batch=self.batch,
            learning_rate=self.learning_rate,
            layers=self.layers or usual.layers,
            precision=self.precision,
        )


USUAL_FITTING = Fitting()


def distill(
    teacher: Spec,
    /,
    *,
    text: Annotated[File, Parameter(group=MATERIAL)],
    out: NewFolder,
    base: Annotated[Text | None, Parameter(group=MODEL, metavar="BASE")] = None,
    heldout: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    limit: Annotated[PositiveInteger | None, Parameter(group=MATERIAL)] = None,
    cache: Annotated[OutputFolder | None, Parameter(group=OUTPUT)] = None,
    fitting: Fitting = USUAL_FITTING,
) -> None:
    """Train a student.

    Parameters
    ----------
    teacher
        model to imitate, e.g. contstim:bert?metric=pll
    text
        text to learn from, one sentence per line, or a CSV with a column 'sentence'
    base
        encoder to start from: a folder, hub name or spec [the teacher's own]
    heldout
        held-out text to measure the student on [a tenth of the text, at most 2,000 sentences]
    limit
        number of sentences used, the first ones [all]
    cache
        folder for the teacher's scores [OUT.scores]
    out
        folder to write
    """
    from contstim.models.devices import limit_torch_threads
    from contstim.models.registry import load_model
    from contstim.training.distillation import distill as distill_model

    refuse_overwriting(out, [text, heldout])
    sentences = read_sentences(text)[:limit]
    others = None if heldout is None else read_sentences(heldout)
    with explain_interruption(), limit_torch_threads(fitting.threads):
        record = distill_model(
            load_model(teacher),
            sentences,
            Path(out),
            base=base,
            heldout=others,
            options=fitting.options(DISTILLATION_DEFAULTS),
            cache=None if cache is None else Path(cache),
            seed=fitting.seed,
            device=fitting.device,
        )
    fit, training = record["heldout"], record["training"]
    print(
        f"student:{out}: Pearson {fit['pearson']:.4f}, Spearman {fit['spearman']:.4f}, error "
        f"{fit['rmse']:.3f} (standard deviation {fit['sd']:.3f}) on {fit['sentences']} sentences; "
        f"{training['sentences']} learnt from, {training['left_out']} left out"
    )


def finetune(
    base: Annotated[Text, Parameter(metavar="BASE")],
    /,
    *,
    source: Annotated[File, Parameter(name="--from", group=MATERIAL, metavar="FOLDER")],
    out: NewFolder,
    task: Annotated[Literal["cola"], Parameter(group=MATERIAL, metavar="TASK")] = "cola",
    restarts: Annotated[int, integer_parameter(1, 1000), Parameter(group=TRAINING)] = 10,
    fitting: Fitting = USUAL_FITTING,
) -> None:
    """Train acceptability classifiers.

    Parameters
    ----------
    base
        encoder to start from: a folder, hub name or spec, e.g. contstim:bert
    source
        folder with in_domain_train.tsv, in_domain_dev.tsv and out_of_domain_dev.tsv
    task
        format of the data
    restarts
        number of networks that are not degenerate
    out
        folder to write
    """
    from contstim.models.devices import limit_torch_threads
    from contstim.training.finetuning import finetune as finetune_model

    with explain_interruption(), limit_torch_threads(fitting.threads):
        record = finetune_model(
            base,
            Path(source),
            Path(out),
            task=task,
            restarts=restarts,
            options=fitting.options(FINETUNING_DEFAULTS),
            seed=fitting.seed,
            device=fitting.device,
        )
    for part, mcc in record["mcc"].items():
        print(
            f"{part}: Matthews' correlation {mcc['mean']:.3f} (sd {mcc['sd']:.3f}), best "
            f"{mcc['best']:.3f}, majority of {len(record['majority'])} {mcc['majority']:.3f}"
        )
    degenerate = [row["seed"] for row in record["degenerate"]]
    replaced = f", seeds {degenerate} degenerate" if degenerate else ""
    print(f"classifier:{out}: best {record['best']}{replaced}")


train = create_application("train", TRAIN)
train.command(create_application("ngram", NGRAM, train_ngram))
for _kind in ("rnn", "lstm"):
    train.command(create_application(_kind, NETWORK, _network_trainer(_kind)))
#: Kinds of ``contstim models``.
KINDS = (
    train,
    create_application("adapt", ADAPT, adapt),
    create_application("distill", DISTILL, distill),
    create_application("finetune", FINETUNE, finetune),
)
