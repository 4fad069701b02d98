"""Give every option of every command absurd values; look for tracebacks, hangs and litter.

The options are those of the parsers, so a new option is tried without a word here; a new command
needs a line in `COMMANDS`. Each run is a process of its own, forked from one that has imported
everything, in a folder of its own with small but real inputs; some are whole commands beside.

    python tests/fuzz_commands.py                      all values of all options
    python tests/fuzz_commands.py --runs 300 --seed 1  a sample of them
    python tests/fuzz_commands.py --part 2/5           every fifth of them, from the second on
    python tests/fuzz_commands.py --only "models train" --verbose
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, takewhile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "experiment"), str(HERE.parent)]
os.environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}

SECONDS = 20  # of processor time, and twice that by the clock: more is a hang
MEMORY = 12 * 2**30  # bytes of addresses; sizes that were not refused end there

MODELS = "--model ngram:2.arpa --model ngram:3.arpa"
PAIR = "--pair ngram:2.arpa ngram:3.arpa"
TRAIN = "--min-count 1 --embedding 2 --hidden 2 --epochs 1 --full-epochs 0 --out new.safetensors"

#: Of each command its positional arguments and the options that it needs.
COMMANDS = {
    "demo": ("", "--out new"),
    "models list": ("", ""),
    "models info": ("ngram:2.arpa", ""),
    "models check": ("ngram:2.arpa", "--sentences sentences.txt"),
    "models train ngram": ("text.txt", "--fallback 0.5,1,1.5 --out new.arpa"),
    "models train rnn": ("text.txt", TRAIN),
    "models train lstm": ("text.txt", TRAIN),
    "models adapt": (
        "hf:bert",
        "--text words.txt --dev held.txt --other held.txt --steps 1 --interval 1 --out new",
    ),
    "models distill": (
        "hf:bert?metric=pll",
        "--text words.txt --heldout held.txt --epochs 1 --out new",
    ),
    "models finetune": (
        "hf:bert",
        "--data cola --restarts 1 --epochs 6 --layers 1 --batch 4 --learning-rate 0.01 --out new",
    ),
    "models precision": (
        "ngram:2.arpa?unknown=unk ngram:3.arpa?unknown=unk",
        "--pairs pairs.csv --out new.csv",
    ),
    "score": ("sentences.txt", f"{MODELS} --out new.csv"),
    "sentences pool": ("", ""),
    "sentences sample": ("sentences.txt", "--length 2-6 --n 2 --out new.txt"),
    "vocabulary": ("text.txt", "--out new.csv"),
    "synthesize": ("The@dog@saw@a@cat.", f"{PAIR} --vocabulary list.txt --out new.csv"),
    "write": ("The@dog@saw@a@cat.", f"{PAIR} --vocabulary list.txt --out new.csv"),
    "review": ("triplets.csv", "--decisions decisions.csv --appendix new.html"),
    "select natural": ("scores.csv", "--per-pair 1 --out new.csv"),
    "select set": ("scores.csv", "--n 1 --out new.csv"),
    "select triplets": ("triplets.csv", "--per-pair 1 --strata 1 --out new.csv"),
    "design trials": (
        "",
        "--natural pairs.csv --groups 2 --participants 2 --random-natural 1 --catch 1 "
        "--pool pool.txt --out new.csv",
    ),
    "design simulate": ("trials.csv", "--follow contstim:bigram?unknown=unk --out new.csv"),
    "design power": (
        "trials.csv",
        "--compare ngram:2.arpa?unknown=unk ngram:3.arpa?unknown=unk --participants 2 4 "
        "--simulations 5 --out new.csv",
    ),
    "design recovery": (
        "pairs.csv",
        "--scores scores.csv --participants 2 --simulations 5 --out new.csv",
    ),
    "design plan": ("", "--participants 5 --trials-each 6 --comparisons 36"),
    "experiment new": ("new", "--trials trials.csv"),
    "experiment check": ("study", ""),
    "experiment serve": ("study", "--port 0"),
    "experiment build": ("", ""),
    "experiment static": ("study", "--out new"),
    "experiment jatos": ("study", "--out new.jzip"),
    "experiment timeline": ("trials.csv", "--out new.json"),
    "experiment export": ("study", "--out new"),
    "experiment import": ("study log.txt", ""),
    "experiment pay": ("study", "--out new.csv"),
    "experiment replace": ("study", "--out new.csv"),
    "experiment release": ("study", "--idle 1"),
    "experiment extend": ("study", "--trials more.csv"),
    "experiment close": ("study", ""),
    "experiment reopen": ("study", ""),
    "experiment backup": ("study", "--out new.sqlite3"),
    "experiment forget": ("study", "--participant ann --why asked"),
    "experiment audit": ("study", "--scores study_scores.csv --out new"),
    "experiment check-psychds": ("psychds", ""),
    "watch": ("choices.csv", "--scores study_scores.csv"),
    "preregister": ("adaptive.toml", ""),
    "run": ("small.toml", "--stage score --out new"),
    "evaluate": ("choices.csv", "--scores study_scores.csv --bootstrap 5 --out new"),
    "datasets list": ("", ""),
    "datasets fetch": ("golan2023", "--from folder"),
    "benchmark": ("golan2023", "--from folder --cost"),
    "publish": ("choices.csv", "--scores study_scores.csv --template new.toml"),
    "report": ("results", "--figure new.svg"),
}
#: Commands that work until they are stopped or for minutes, and what they print when they do.
LONG = {
    "demo": ("Which language model ", "participants: "),
    "experiment serve": ("participants: ",),
    "watch": (" answers of ",),
}
#: The run of a command with nothing absurd, which must do its work.
PLAIN = "nothing"
#: From so many runs on, what the plain ones import is imported once, before all others.
MANY = 500
#: Commands whose status 1 is documented.
STATUS_1 = ("run", "experiment import")

NUMBERS = [
    *("0", "-1", "1", "2.5", "nan", "inf", "-inf", "1e400", "1e308", "5e-324", "0x10", "1_0", "٣"),
    *("²", "1e9", "1000000000", "99999999999999999999", "-99999999999999999999", "1,nan"),
    *("0,0,inf", "1e400,1e400", "nan,nan,nan", "0,-1", "1/0", "1/99999999999999999999", "0-0"),
    *("8-99999999999999999999", "9-1", "nan-8"),
]
TEXTS = [
    *("x", " ", "-", "--", "%s%n{0}", "☃", "\udcff", "\x1b[2J", "x" * 300, "é" * 5000, "a=b", "="),
    *("cuda:99", "meta", "local:0", "slurm:x", "tcp://127.0.0.1:1", "999.999.999.999", "::1", "[]"),
    *("ngram:", "ngram:loop", "ngram:empty", "lstm:binary", "hf:folder", "hf:loop", "student:bert"),
    *("contstim:bigram?device=cuda:99", "contstim:bigram?a=b=c", "ngram:2.arpa=1e400", "nltk:x"),
    *(
        "hf:bert?dtype=int8",
        "hf:bert?metric=x",
        "hf:bert?orders=99999999999999999999",
        "?",
        "a:b?c",
    ),
]
PATHS = [
    *(".", "..", "/", "./", "//", "../../..", "loop", "loop/x", "dangling", "folder", "folder/"),
    *("no/where/x", "sentences.txt/x", "null", "/proc/nothing/x", "~", "missing.csv"),
    *("empty", "blank", "binary", "huge.csv", "huge.txt", "line.txt", "cut.gz", "nul.csv", "latin"),
    *("missing.csv.gz", "deep.json", "sentences.txt", "x.tsv", "empty.parquet", "empty.npz"),
]
VALUES = [*NUMBERS, *TEXTS, *PATHS]


@dataclass(frozen=True)
class Run:
    """A command line and the option, or number of the positional argument, that is absurd."""

    command: str
    what: str
    value: str
    argv: tuple[str, ...]


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command that can be called, by its words."""
    from contstim import cli
    from contstim.cli.parsing import CommandParser

    found = {}

    def walk(name: str, parser: argparse.ArgumentParser) -> None:
        subs = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        for sub in subs:
            for word, inner in sub.choices.items():
                walk(f"{name} {word}", inner)
        if not subs:
            found[name] = parser

    for name in cli.COMMANDS:
        parser = CommandParser(prog=f"contstim {name}")
        import_module(f"contstim.cli.{name}").configure(parser)
        walk(name, parser)
    return found


def values_for(action: argparse.Action) -> list[str]:
    """Return the values to try: what reads numbers or names takes the other kinds alike."""
    from contstim.cli.parsing import new_file, output_file, output_folder

    if action.choices:
        return TEXTS[:8]
    if action.type in (None, str, Path):
        return VALUES
    if action.type in (new_file, output_file, output_folder):
        return [*TEXTS, *PATHS]
    return [*NUMBERS, *TEXTS[:16]]


def all_runs() -> list[Run]:
    """Return a run for each value of each option and positional argument of each command."""
    runs = []
    for command, parser in parsers().items():
        if command not in COMMANDS:
            raise SystemExit(f"COMMANDS does not say what 'contstim {command}' needs; add a line")
        places, options = (text.split() for text in COMMANDS[command])
        places = [place.replace("@", " ") for place in places]
        words = command.split()
        if command != "experiment build":  # fetches from a registry
            runs.append(Run(command, PLAIN, "", (*words, *options, *places)))
        positional = 0
        for action in parser._actions:
            if isinstance(action, argparse._HelpAction | argparse._VersionAction):
                continue
            option = max(action.option_strings, key=len, default="")
            if option and action.nargs == 0:
                runs.append(Run(command, option, "", (*words, *options, option, *places)))
                continue
            for value in values_for(action):
                if option and isinstance(action.nargs, int):
                    given = [option, value, *["ngram:3.arpa"] * (action.nargs - 1)]
                elif option and action.nargs == "+":
                    given = [option, value]
                elif option:
                    given = [f"{option}={value}"]
                here = [*places]
                if not option:
                    given = []
                    here[positional : positional + 1] = [value]
                ends = ["--"] if here else []
                argv = (*words, *options, *given, *ends, *here)
                runs.append(Run(command, option or f"argument {positional + 1}", value, argv))
            positional += not option
    return runs


def make_inputs(folder: Path) -> None:
    """Write what the commands read, good and bad."""
    import pandas as pd
    from studies import make_trials
    from talking import play
    from tiny_transformers import save_checkpoint

    from contstim import load_model
    from contstim.evaluation import evaluate
    from contstim.experiment.collected import read_collected
    from contstim.experiment.exporting import write_psychds
    from contstim.experiment.new import new_study
    from contstim.experiment.store import Store
    from contstim.tables import TRIPLETS
    from contstim.training.ngram import train_ngram

    def write(name: str, text: str | bytes) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    nouns, ends = ("dog", "cat", "man", "woman"), ("ran.", "saw a cat.", "saw the old man.")
    lines = [f"{the} {noun} {end}" for the in ("The", "A") for noun in nouns for end in ends]
    write("text.txt", "".join(f"{line}\n" for line in lines * 2))
    write("words.txt", "".join(f"{line}\n" for line in lines))
    write("sentences.txt", "The dog saw a cat.\nA man ran.\nThe woman saw the old man.\n")
    write("held.txt", "A dog saw a man.\nThe cat ran.\nA woman saw the old cat.\n")
    write("list.txt", "The\nA\ndog\ncat\nman\nsaw\nran\na\nthe\nold\n")
    write("pool.txt", "".join(f"The {i} old men walked home again, slowly.\n" for i in range(40)))
    for order in (2, 3):
        path = folder / f"{order}.arpa"
        train_ngram(folder / "text.txt", path, order=order, fallback=(0.5, 1.0, 1.5))
    save_checkpoint("bert", folder / "bert")
    for name in ("in_domain_train", "in_domain_dev", "out_of_domain_dev"):
        rows = "".join(f"x\t{int('dog' in line)}\t\t{line}\n" for line in lines)
        write(f"cola/{name}.tsv", rows)
    write(
        "small.toml",
        'models = ["ngram:2.arpa", "ngram:3.arpa"]\n[study]\nname = "small"\nseed = 3\n'
        '[sentences]\nfile = "sentences.txt"\n[natural]\nper_pair = 1\n',
    )
    hypotheses = [{"text": "a dog ran", "score": -10}, {"text": "the dog ran", "score": -11}]
    for number in range(4):
        split = "dev" if number < 2 else "test"
        row = {"id": f"u{number}", "split": split, "reference": "the dog ran"}
        text = json.dumps(row | {"hypotheses": hypotheses}) + "\n"
        with (folder / "nbest.jsonl").open("a", encoding="utf-8") as file:
            file.write(text)
    write("adaptive.toml", "[adaptive]\ntrials = 9\n")
    write("scores.csv", "sentence,a,b\nx y,-4,-1\nx z,-1,-4\nx u,-3,-2\nx v,-2,-3\n")
    write(
        "pairs.csv",
        "model_1,model_2,sentence_1,sentence_2\n"
        + "".join(f"a,b,First {i} went up.,Then {i} came down.\n" for i in range(4)),
    )
    write(
        "triplets.csv",
        f"{','.join(TRIPLETS)},repeat\n"
        "a,b,The dog ran.,A cat ran.,A man ran.,-9,-9,-8,-12,-12,-8,0\n",
    )
    write("decisions.csv", "sentence,reviewer,decision\nThe dog ran.,A,approve\n")
    trials = make_trials()
    trials.to_csv(folder / "trials.csv", index=False)
    make_trials(participants=3).to_csv(folder / "more.csv", index=False)
    study = new_study(folder / "study", folder / "trials.csv")
    with Store(study) as store:
        for name in ("ann", "bob", "cem"):
            play(store, name)
    collected = read_collected(study)
    collected.choices.to_csv(folder / "choices.csv", index=False)
    write_psychds(study, collected, folder / "psychds")
    sentences = pd.unique(pd.concat([trials["sentence_1"], trials["sentence_2"]])).tolist()
    model = load_model("contstim:bigram?unknown=unk")
    values = model.score(sentences)
    scores = pd.DataFrame({"sentence": sentences, "m1": values, "m2": values[::-1]})
    scores.to_csv(folder / "study_scores.csv", index=False)
    evaluate(collected.choices, scores, n_bootstrap=0).write_tables(folder / "results")
    consent = {"version": study.consent.version, "sha256": study.consent_sha256}
    consent |= {"given": True, "at": "2026-11-21T11:58:00.000Z"}
    head = {"session": "s" * 32, "group": study.design.groups[4], "assignment": 4}
    log = head | {"study": study.study.name, "consent": consent}
    write("log.txt", json.dumps(log) + "\n")
    for name in ("empty", "empty.parquet", "empty.npz"):
        write(name, b"")
    write("blank", "\n \n\n")
    write("binary", bytes(range(256)) * 40)
    write("latin", "The café\n".encode("latin-1"))
    write("nul.csv", "word,sentence\na\0b,The\0 dog ran.\n")
    write("x.tsv", "a\tb\n1\t2\n")
    write("cut.gz", gzip.compress(b"The dog ran.\n" * 400)[:-12])
    write("deep.json", "[" * 100_000)
    # A field beyond the csv module's limit, in a table with every column that commands look for.
    columns = "word,sentence,natural,sentence_1,sentence_2,model,model_1,model_2,log_prob,rating"
    huge = f"{columns}\n" + ",".join(["w" * 200_000, *"The dog ran|" * 9]) + "\n"
    write("huge.csv", huge)
    write("huge.txt", huge)
    write("line.txt", "the dog saw a cat " * 120_000 + "\n")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("no/where")
    (folder / "null").symlink_to("/dev/null")


def tree(folder: Path) -> dict[str, tuple[int, ...]]:
    """Return the files of a folder with size and time, and the folders."""
    found: dict[str, tuple[int, ...]] = {}
    for place, folders, files in os.walk(folder):
        for name in files:
            path = os.path.join(place, name)
            state = os.lstat(path)
            found[os.path.relpath(path, folder)] = (state.st_size, state.st_mtime_ns)
        for name in folders:
            found[os.path.relpath(os.path.join(place, name), folder)] = ()
    return found


def allowed(run: Run, path: str) -> bool:
    """Whether a refused command may leave `path`: what is meant to outlive a failure."""
    cached = run.what == "--cache" or ".scores" in path or ".restarts" in path
    return cached or path.endswith((".sqlite3-wal", ".sqlite3-shm"))


class Child:
    """A run under way, in a process and a folder of its own."""

    def __init__(self, run: Run, inputs: Path, shelf: Path, whole: bool) -> None:
        self.run = run
        self.root = Path(tempfile.mkdtemp(dir=shelf))
        # Three folders down, so that paths that lead up stay within.
        self.place = self.root / "up" / "and" / "down"
        shutil.copytree(inputs, self.place, symlinks=True)
        self.before = tree(self.root)
        self.top = set(os.listdir("/"))
        self.out, self.err = self.root.with_suffix(".out"), self.root.with_suffix(".err")
        self.imported = self.root.with_suffix(".modules")
        self.out.touch()
        self.started = time.monotonic()
        self.stopped = ""
        self.process = self._command() if whole else None
        self.pid = self.process.pid if self.process else self._fork()

    def _command(self) -> subprocess.Popen[bytes]:
        code = "import sys; from contstim.cli import main; sys.exit(main())"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            return subprocess.Popen(
                [sys.executable, "-c", code, *self.run.argv],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.place,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(HERE.parent)},
            )

    def _fork(self) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.setsid()  # what it does to its process group is its own affair
            os.chdir(self.place)
            for descriptor, path in ((1, self.out), (2, self.err)):
                os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY), descriptor)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            sys.argv = ["contstim", *self.run.argv]
            from contstim.cli import main

            status = main(self.run.argv)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 0
        except BaseException:  # noqa: BLE001 - what ends a command is what is looked for
            import traceback

            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
                if self.run.what == PLAIN:
                    self.imported.write_text("\n".join(sys.modules), "utf-8")
            os._exit(status)

    def poll(self) -> int | None:
        """Return the status once the process has ended; stop what is at work or hangs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        printed = self.out.read_text("utf-8", "replace")
        at_work = any(marker in printed for marker in LONG.get(self.run.command, ()))
        if not self.stopped and at_work:
            self.stopped = "at work"
            time.sleep(0.3)  # the server says so just before it is
            os.kill(self.pid, signal.SIGTERM)
            self.started = time.monotonic()
        elif time.monotonic() - self.started > 3 * SECONDS or self._seconds() > SECONDS:
            self.stopped = "hangs"
            os.kill(self.pid, signal.SIGKILL)
        return None

    def _seconds(self) -> float:
        with suppress(OSError, IndexError):
            fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def faults(self, status: int) -> list[str]:
        """Say what is wrong with how the process ended."""
        printed = self.err.read_text("utf-8", "replace")
        lines = [line for line in printed.splitlines() if line.strip()]
        last = lines[-1] if lines else "nothing on standard error"
        if self.stopped == "hangs":
            return [f"hangs; {last}"]
        found = []
        if "Traceback (most recent call last)" in printed:
            found.append(f"traceback: {last}")
        elif status == 2 and not last.startswith("contstim"):
            found.append(f"refused without a line: {last}")
        elif status not in (0, 2) and not (
            (status == 1 and self.run.command in STATUS_1) or (self.stopped and status == 130)
        ):
            found.append(f"status {status}: {last}")
        # The page's own files and published data come from elsewhere and need not be there.
        lacks = "page lacks" in last or "has no file with the content" in last
        if self.run.what == PLAIN and status not in (0, 130) and not lacks:
            found.append(f"does not work: {last}")
        warned = [line for line in lines if "Warning: " in line and ".py:" in line]
        found += [f"warns: {warned[0].partition('Warning: ')[2]}"] if warned else []
        after = tree(self.root)
        changed = [path for path, state in after.items() if self.before.get(path) != state]
        changed += [f"{path} is gone" for path in self.before if path not in after]
        if status == 2:
            litter = [path for path in changed if not allowed(self.run, path)]
        else:
            litter = [p for p in changed if p.endswith((".tmp", ".partial", ".part", ".state"))]
        found += [f"leaves {litter[0]}"] if litter else []
        strange = {n for n in os.listdir("/") if n not in self.top}
        found += [f"writes to /: {sorted(strange)}"] if strange else []
        return found

    def clear(self) -> None:
        """Remove what the run wrote, and end what it left running."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        shutil.rmtree(self.root, ignore_errors=True)
        for path in (self.out, self.err, self.imported):
            path.unlink(missing_ok=True)


def preload(runs: list[Run], inputs: Path, shelf: Path) -> None:
    """Import what the commands at hand import when nothing is absurd: no run waits for it again."""
    commands = {run.command for run in runs} - {*LONG}
    names: set[str] = set()
    for run in all_runs():
        if run.what == PLAIN and run.command in commands:
            child = Child(run, inputs, shelf, whole=False)
            while child.poll() is None:
                time.sleep(0.002)
            if child.imported.exists():
                names |= {*child.imported.read_text("utf-8").split()}
            child.clear()
    for name in sorted(names - {*sys.modules}):
        with suppress(ImportError):  # a module made under another name
            import_module(name)
    gc.collect()
    gc.freeze()  # which would otherwise be copied for each process


def perform(
    runs: list[Run],
    whole: Callable[[int], bool],
    inputs: Path,
    shelf: Path,
    jobs: int,
    seconds: float,
    report: Callable[[Run, int, float, list[str]], None],
) -> None:
    """Do the runs, `jobs` at a time, and report each as it ends; begin none after `seconds`."""
    end = time.monotonic() + seconds
    waiting: Iterator[tuple[int, Run]] = takewhile(
        lambda _: time.monotonic() < end, enumerate(runs)
    )
    alive: list[Child] = []
    while True:
        for number, run in islice(waiting, jobs - len(alive)):
            alive.append(Child(run, inputs, shelf, whole(number)))
        if not alive:
            return
        for child in [*alive]:
            status = child.poll()
            if status is not None:
                report(child.run, status, time.monotonic() - child.started, child.faults(status))
                child.clear()
                alive.remove(child)
        time.sleep(0.002)


def main() -> int:
    """Do what the options say; return 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, help="so many, drawn by chance (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of that draw")
    parser.add_argument("--part", default="1/1", metavar="K/N", help="the Kth of N equal parts")
    parser.add_argument("--only", default="", help="commands that begin with this")
    parser.add_argument("--option", help="this option alone")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="begin no run after so many (default: no limit)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--whole", type=int, default=0, help="so many as commands of their own")
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    args = parser.parse_args()
    runs = [
        run
        for run in all_runs()
        if run.command.startswith(args.only) and args.option in (None, run.what)
    ]
    part, parts = map(int, args.part.split("/"))
    runs = runs[part - 1 :: parts]
    rng = random.Random(args.seed)
    runs = rng.sample(runs, min(len(runs), len(runs) if args.runs is None else args.runs))
    whole = {*rng.sample(range(len(runs)), min(args.whole, len(runs)))}
    statuses: Counter[int] = Counter()
    options = set()
    faulty = 0

    def report(run: Run, status: int, seconds: float, faults: list[str]) -> None:
        nonlocal faulty
        statuses[status] += 1
        options.add((run.command, run.what))
        faulty += bool(faults)
        shown = ascii(run.value if len(run.value) < 60 else run.value[:57] + "...")
        for fault in faults or (["ok"] if args.verbose else []):
            line = f"{run.command} {run.what} {shown}: [{status}, {seconds:.1f} s] {fault}"
            print(line[:400], flush=True)

    # In memory where that is a folder: each run has its own copy of the inputs.
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as shelf:
        inputs = Path(shelf) / "inputs"
        inputs.mkdir()
        make_inputs(inputs)
        if len(runs) > MANY:
            preload(runs, inputs, Path(shelf))
        started = time.monotonic()
        perform(runs, whole.__contains__, inputs, Path(shelf), args.jobs, args.seconds, report)
        seconds = time.monotonic() - started
    ended = ", ".join(f"status {status}: {n}" for status, n in sorted(statuses.items()))
    print(
        f"{statuses.total()} runs of {len(runs)}, {len(whole)} of these whole commands, of "
        f"{len(options)} options and arguments in {seconds:.0f} s ({ended}): {faulty} faulty"
    )
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
