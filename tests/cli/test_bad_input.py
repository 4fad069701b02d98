"""Test that invalid input gives a one-line error, exit status 2 and no partial files.

Tests `contstim.cli`, `contstim.cli.application` and `contstim.cli.parameters`.
"""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from contstim.cli import main
from contstim.cli.application import create_application, run_application
from contstim.cli.parameters import STANDARD_OUTPUT, NewFile, OutputFile
from contstim.errors import OutputError

ONE_WAY = ["--reject", "contstim:bigram", "--accept", "contstim:trigram"]


@pytest.fixture
def fail(capsys: pytest.CaptureFixture[str]):
    def run(*argv: str) -> str:
        try:
            status = main(list(argv))
        except SystemExit as error:
            status = error.code
        captured = capsys.readouterr()
        assert status == 2, captured
        lines = captured.err.strip().splitlines()
        message = lines[-1]
        assert message.startswith("contstim")
        assert "Traceback" not in captured.err
        return message.partition(": ")[2]

    return run


@pytest.fixture
def sentences(tmp_path: Path) -> str:
    path = tmp_path / "sentences.txt"
    path.write_text("The door was open.\nHe saw the house.\n")
    return str(path)


def test_unknown_model_names_are_rejected(fail, sentences: str) -> None:
    message = fail("score", "--model", "contstim:trigam", sentences)
    assert message.startswith("unknown bundled model 'trigam'; did you mean 'trigram'")
    message = fail("score", "--model", "ngrams:x.arpa", sentences)
    assert message == "unknown model family 'ngrams'; did you mean 'ngram'?"
    assert fail("models", "info", "trigram") == (
        "'trigram' is not a model spec; write FAMILY:LOCATION, for example contstim:trigram, "
        "hf:trigram"
    )


def test_unknown_words_are_rejected(fail, tmp_path: Path) -> None:
    path = tmp_path / "s.txt"
    path.write_text("The door was open.\nThe zyzzyva was open.\n")
    out = tmp_path / "scores.csv"
    message = fail("score", "--model", "contstim:trigram", str(path), "--out", str(out))
    assert message == (
        "sentence 2: contstim:trigram does not know 'zyzzyva' in 'The zyzzyva was open.'; leave "
        "the sentence out, use a model trained with the word, or set unknown=unk"
    )
    assert list(tmp_path.iterdir()) == [path]


def test_vocabulary_without_capitalised_words_is_rejected(
    fail, tmp_path: Path, sentences: str
) -> None:
    words = tmp_path / "words.txt"
    words.write_text("house\ndoor\nopen\n")
    pair = ("--pair", "contstim:bigram", "contstim:trigram")
    message = fail("synthesize", *pair, "--sentences", sentences, "--vocabulary", str(words))
    assert message.startswith("the vocabulary has no word allowed first; list capitalised words")


def test_damaged_models_are_rejected(fail, tmp_path: Path, sentences: str) -> None:
    path = tmp_path / "model"
    path.write_text("the dog ran")
    for family in ("ngram", "lstm"):
        assert str(path) in fail("score", "--model", f"{family}:{path}", sentences)


def test_unwritable_outputs_are_rejected(fail, tmp_path: Path, sentences: str) -> None:
    nowhere = tmp_path / "no" / "where.csv"
    message = fail("score", "--model", "contstim:bigram", sentences, "--out", str(nowhere))
    assert message == f"cannot write {nowhere}: No such file or directory; choose another output"
    out = str(tmp_path / ("x" * 300))
    message = fail("score", "--model", "contstim:bigram", sentences, "--out", out)
    assert f"cannot write {out}: File name too long; choose another output" in message
    pair = ("--pair", "contstim:bigram", "contstim:trigram")
    blocked = Path(sentences) / "t.csv"
    message = fail("synthesize", *pair, "--sentences", sentences, "--out", str(blocked))
    assert f"cannot write {blocked}: " in message
    assert "cannot write" in fail("demo", "--out", sentences)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["scor"], "unknown command 'scor'; did you mean 'score'?"),
        (
            ["select", "triplets", "x.csv", "--objective", "worst"],
            "there is no file x.csv",
        ),
        (["score", "x.txt"], "--model"),
        (
            ["synthesize", "The door was open."],
            "name the models once: --pair SPEC_1 SPEC_2 for triplets",
        ),
        (["synthesize", "--pair", *ONE_WAY[1::2], *ONE_WAY, "x y"], "name the models once"),
        (["synthesize", "--reject", "contstim:bigram", "x y"], "reject needs an accepting model"),
        (["synthesize", "--pair", "contstim:bigram", "contstim:bigram", "x y"], "twice"),
        (
            ["synthesize", *ONE_WAY, "--strategy", "beam", "--edits", "max=2,same-class", "x y"],
            "the strategy 'beam' writes whole sentences and cannot limit edits (max=2,same-class); "
            "use the strategy 'edit', or leave the edits out",
        ),
        (
            ["synthesize", *ONE_WAY, "--strategy", "sample", "--edits", "fixed=0", "x y"],
            "the strategy 'sample' writes whole sentences and cannot limit edits (fixed=0)",
        ),
        (
            ["synthesize", *ONE_WAY, "--pool", "p.csv", "x y"],
            "pool needs the strategy 'sample', but the strategy is 'edit'; leave out pool",
        ),
        (["synthesize", "--limit", "0"], "'0' is not a whole number from 1 up"),
        (["demo", "--seed", "-1"], "'-1' is not a whole number from 0 up"),
        (["sentences", "sample", "x.txt", "--length", "eight"], "'eight' is not a length"),
    ],
)
def test_invalid_arguments_are_rejected(fail, argv: list[str], words: str) -> None:
    assert words in fail(*argv)


def test_output_equal_to_an_input_is_rejected(fail, tmp_path: Path, sentences: str) -> None:
    """Overwriting the input would lose sentences, a text or triplets."""
    before = Path(sentences).read_bytes()
    link = tmp_path / "link.txt"
    link.symlink_to(sentences)
    for out in (sentences, str(link)):
        message = f"{out} would be both read and written; choose another output"
        assert fail("score", "--model", "contstim:bigram", sentences, "--out", out) == message
        sample = ("sentences", "sample", sentences, "--length", "4")
        assert fail(*sample, "--out", out) == message
        assert fail("models", "train", "ngram", sentences, "--out", out) == message
    assert Path(sentences).read_bytes() == before
    scores = tmp_path / "scores.csv"
    scores.write_text("sentence,a,b\nx y,-4,-1\nx z,-1,-4\nx u,-3,-2\nx v,-2,-3\n")
    select = ("select", "natural", str(scores), "--per-pair", "1")
    assert "both read and written" in fail(*select, "--out", str(scores))


@pytest.mark.parametrize("argv", [["--sentences", ""], ["--vocabulary", ""], ["--out="], [""]])
def test_empty_arguments_are_rejected(fail, argv: list[str]) -> None:
    pair = ("--pair", "contstim:bigram", "contstim:trigram")
    assert "there is an empty argument" in fail("synthesize", *pair, *argv)


def _run(shell: str, sentences: str) -> subprocess.CompletedProcess[bytes]:
    """Run a shell line; $C is the command and $S the file of sentences."""
    code = "import sys; from contstim.cli import main; sys.exit(main())"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
    line = shell.replace("$C", command).replace("$S", shlex.quote(sentences))
    return subprocess.run(["sh", "-c", line], capture_output=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_full_disk_is_reported(sentences: str) -> None:
    for shell in (
        "$C score --model contstim:bigram $S > /dev/full",
        "$C score --model contstim:bigram $S --out /dev/full",
    ):
        done = _run(shell, sentences)
        assert done.returncode == 2
        assert b": No space left on device" in done.stderr.splitlines()[-1]
        assert b"Traceback" not in done.stderr


def test_closed_standard_streams_are_reported(sentences: str) -> None:
    done = _run("$C score --model contstim:bigram - <&-", sentences)
    assert done.returncode == 2
    assert done.stderr == b"contstim: standard input is closed; give a file\n"
    done = _run("$C score --model contstim:bigram $S >&-", sentences)
    assert done.returncode == 2
    assert done.stderr == b"contstim: standard output is closed; send it to a file\n"
    done = _run("$C score --model contstim:bigram $S 2>&-", sentences)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 3  # no message among the rows


def test_nul_characters_in_specs_are_rejected(fail, sentences: str) -> None:
    for family in ("ngram", "lstm"):
        message = fail("score", "--model", f"{family}:a%00b", sentences)
        assert message.startswith(f"'{family}:a%00b' contains a NUL character")


def test_invalid_power_studies_are_rejected(fail, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text("sentence_1,sentence_2\nThe door was open.,He saw the house.\n")
    power = ("design", "power", str(path), "--compare", "contstim:bigram")
    message = fail(*power, "contstim:bigram")
    assert message == "--compare names 'contstim:bigram' twice; give different models"
    message = fail(*power, "contstim:trigram", "--trials-each", "2")
    assert message == "2 trials per participant are more than the 1 pair of a group; ask for fewer"
    path.write_text("sentence_1\nThe door was open.\n")
    assert fail(*power, "contstim:trigram").startswith(f"{path} has no column 'sentence_2'")


TRIALS = "participant,group,trial,condition,sentence_1,sentence_2,model_1,model_2\n"


def test_invalid_trials_are_rejected(fail, tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text(TRIALS + '1,1,1,c,"The door was open.,He saw the house.,,\n')
    assert fail("design", "simulate", str(path)).startswith(f"cannot read {path}: ")
    path.write_text(TRIALS + "1,1,1,c,The door, he saw, was open.,He saw the house.,,\n")
    assert "more cells than its header" in fail("design", "simulate", str(path))


def test_invalid_simulation_parameters_are_rejected(fail, tmp_path: Path) -> None:
    path = tmp_path / "trials.csv"
    path.write_text(TRIALS + "1,1,1,c,The door was open.,He saw the house.,,\n")
    simulate = ("design", "simulate", str(path))
    assert "--noise: 'nan' is not a finite number from 0" in fail(*simulate, "--noise", "nan")
    assert "--lapse: '2' is not a finite number from 0 to 1" in fail(*simulate, "--lapse", "2")
    message = fail(*simulate, "--follow", "contstim:trigram=nan")
    assert message == "the weight nan of --follow 'contstim:trigram=nan' is not a number above 0"
    message = fail(*simulate, "--follow", "contstim:trigram=-1")
    assert message == "the weight -1 of --follow 'contstim:trigram=-1' is not a number above 0"
    # A number may be the value of a spec's option, and no weight.
    message = fail(*simulate, "--follow", "contstim:trigram?orders=100")
    assert message.startswith("unknown option 'orders' in")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            "select natural --model contstim:bigram",
            "contstim: there is no option '--model' here; see contstim select natural --help",
        ),
        (
            "select natural s.csv --perpair 3",
            "contstim: there is no option '--perpair' here; "
            "did you mean '--per-pair'?; see contstim select natural --help",
        ),
        (
            "select natural s.csv t.csv",
            "contstim: 't.csv' is an argument too many; see contstim select natural --help",
        ),
        (
            "synthesize --device cuda:0",
            "contstim: there is no option '--device' here; see contstim synthesize --help",
        ),
        (
            "--frobnicate score s.txt --model contstim:bigram",
            "contstim: there is no option '--frobnicate' here; see contstim --help",
        ),
    ],
)
def test_unknown_options_are_rejected(
    argv: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(argv.split())
    except SystemExit as error:
        status = error.code
    assert status == 2
    assert capsys.readouterr().err == f"{said}\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            "select",
            "give one of natural, triplets, set after contstim select; see contstim select",
        ),
        (
            "select natrual",
            "unknown subcommand 'natrual'; did you mean 'natural'?; see contstim select",
        ),
        ("select natural", "SCORES is missing; give it; see contstim select natural --help"),
        ("select natural s.csv --per-pair", "--per-pair needs N; see contstim select natural"),
        ("select natural s.csv --per-pair 1_0", "'1_0' is not a whole number from 1 up; see "),
        ("select natural s.csv --per-pair 9999999", "--per-pair: '9999999' is too large, the max"),
        ("select natural s.csv --accept-from nan", "'nan' is not a finite number from 0 to 1; see"),
        ("select natural s.csv --features --tokens", "--features: needs a value, and --tokens is "),
        ("select natural s.csv --out a --out b", "--out is given twice; give it once; see contsti"),
        ("select set s.csv --candidates bth", "unknown value 'bth'; did you mean 'both'?; see con"),
    ],
)
def test_argument_errors_are_one_line(
    argv: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv.split()) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_two_outputs_in_one_file_are_rejected(tmp_path: Path) -> None:
    app = create_application("two", "Write two files.")

    @app.default
    def two(*, out: OutputFile = STANDARD_OUTPUT, pool: NewFile | None = None) -> None:
        """Write two files.

        Parameters
        ----------
        out
            the one
        pool
            the other
        """

    path = str(tmp_path / "one.csv")
    with pytest.raises(OutputError, match="--out and --pool are one file, .*; give each its own"):
        run_application(app, ["--out", path, "--pool", f"{tmp_path}/./one.csv"])
    assert run_application(app, ["--out", path]) == 0
