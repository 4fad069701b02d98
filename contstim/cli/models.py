"""List, describe, check, train and adapt models.

examples:
  contstim models list
  contstim models info contstim:trigram
  contstim models check hf:my-folder --sentences mine.txt
  contstim models train ngram text.txt --order 3 --out mine.arpa.gz
"""

from __future__ import annotations

import contstim
from contstim.cli import SUBCOMMANDS
from contstim.cli.application import create_application
from contstim.cli.parameters import File, Spec
from contstim.text import read_sentences

CHECK = """Check that a model satisfies the requirements of a sentence model.

examples:
  contstim models check contstim:lstm
  contstim models check hf:my-folder --sentences mine.txt
"""

app = create_application("models", __doc__)


def list_models() -> None:
    """List bundled models and model families."""
    from contstim.models.registry import available_families, bundled_models

    for name, entry in bundled_models().items():
        print(f"{'contstim:' + name:<30} {entry.summary}")
    # `contstim` itself is the family of the bundled models listed above.
    for family in available_families().values():
        if family.name != "contstim":
            print(f"{family.name + ':PATH':<30} {family.summary}")


def info(spec: Spec, /) -> None:
    """Describe a model and the definition of its score.

    Parameters
    ----------
    spec
        model, e.g. contstim:trigram
    """
    from contstim.models.registry import model_card

    model = contstim.load_model(spec)
    print(f"spec     {model.spec}")
    # The score is the log-probability of an event, for example that the sentence and the end symbol
    # follow the start symbol. Digests identify the event and the weights.
    print(f"event    {model.event}")
    print(f"digest   {model.event.digest} (event), {model.fingerprint} (weights)")
    card = model_card(model)
    if card is not None:
        print(f"\n{card.rstrip()}")


def check(spec: Spec, /, *, sentences: File | None = None) -> None:
    """Check a model.

    Parameters
    ----------
    spec
        model to check
    sentences
        natural sentences of several lengths [bundled English pool]
    """
    model = contstim.load_model(spec)
    for line in contstim.check_model(
        model, None if sentences is None else read_sentences(sentences)
    ):
        print(f"ok  {line}")


app.command(create_application("list", "List bundled models and model families.", list_models))
app.command(create_application("info", "Describe a model and the definition of its score.", info))
app.command(create_application("check", CHECK, check))
for subcommand in SUBCOMMANDS.get("models", ()):
    app.command(subcommand, name=subcommand.name[0].removeprefix("contstim "))
