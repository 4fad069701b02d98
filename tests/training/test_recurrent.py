"""Training of recurrent networks: softmax, gradients, resumption, and rejected inputs.

Tests `contstim.training.recurrent` and `contstim.training.softmax`.
"""

import gzip
import itertools
import math
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from contstim.errors import InputError, OutputError
from contstim.models.recurrent import (
    NetworkConfig,
    RecurrentNetwork,
    TokenVocabulary,
    load_network,
)
from contstim.models.registry import load_model
from contstim.text import read_words
from contstim.training.corpus import TokenCorpus, read_text
from contstim.training.options import TrainingOptions
from contstim.training.recurrent import (
    Trainer,
    train_recurrent,
)
from contstim.training.softmax import NegativeSamples, cross_entropy

SMALL = TrainingOptions(
    epochs=3,
    full_epochs=1,
    batch_tokens=64,
    learning_rate=0.02,
    warmup=5,
    head=4,
    samples=4,
    interval=20,
    patience=50,
    checkpoint_every=5,
    seed=1,
)


def write_text(path, n=300, seed=0):
    """Write sentences of a little grammar: article noun verb, and now and then an object."""
    rng = np.random.default_rng(seed)
    nouns = ("dog", "cat", "horse", "bird", "fish", "cow")
    verbs = ("sees", "hears", "likes", "knows")
    lines = []
    for _ in range(n):
        words = ["the", str(rng.choice(nouns)), str(rng.choice(verbs))]
        if rng.random() < 0.5:
            words += ["a", str(rng.choice(nouns))]
        lines.append(" ".join([*words, "."]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def softmax_case(n=9, v=12, d=4):
    random = torch.Generator().manual_seed(2)
    queries = torch.randn(n, d, generator=random)
    matrix = torch.randn(v, d, generator=random)
    bias = torch.randn(v, generator=random)
    return queries, matrix, bias, torch.tensor([0, 3, 11, 5, 5, 7, 2, 9, 1])[:n]


def run_softmax(negatives, case, budget=10**6):
    leaves = queries, matrix, bias = [t.clone().requires_grad_() for t in case[:3]]
    loss = cross_entropy(queries, case[3], matrix, bias, negatives, max_logits=budget)
    loss.backward()
    return loss.item(), *(t.grad for t in leaves)


def full(v):
    return NegativeSamples(v, torch.zeros(0, dtype=torch.long), torch.zeros(0))


@pytest.mark.parametrize("budget", [10**6, 30])
def test_full_softmax_equals_pytorch_cross_entropy(budget):
    case = softmax_case()
    queries, matrix, bias = (t.clone().requires_grad_() for t in case[:3])
    loss = torch.nn.functional.cross_entropy(queries @ matrix.t() + bias, case[3])
    loss.backward()
    found = run_softmax(full(12), case, budget)
    assert found[0] == pytest.approx(loss.item(), abs=1e-6)
    for grad, tensor in zip(found[1:], (queries, matrix, bias), strict=True):
        torch.testing.assert_close(grad, tensor.grad)
    # A tail that holds every token once with weight 1 is the full softmax too.
    every = NegativeSamples(3, torch.arange(3, 12), torch.zeros(9))
    for grad, same in zip(run_softmax(every, case), found, strict=True):
        torch.testing.assert_close(torch.as_tensor(grad), torch.as_tensor(same))


@pytest.mark.parametrize("budget", [10**6, 20])
def test_sampled_softmax_and_its_gradient_follow_the_definition(budget):
    case = softmax_case()
    targets = case[3]
    tail, log_weight = torch.tensor([5, 8, 9]), torch.tensor([0.7, -0.2, 1.1])
    queries, matrix, bias = (t.clone().requires_grad_() for t in case[:3])
    scores = queries @ matrix.t() + bias
    losses = []
    for row, target in enumerate(targets.tolist()):
        terms = {w: scores[row, w] for w in (0, 1, 2, 3)}
        for w, weight in zip(tail.tolist(), log_weight, strict=True):
            terms[w] = scores[row, w] + weight
        terms[target] = scores[row, target]
        losses.append(torch.logsumexp(torch.stack(list(terms.values())), 0) - terms[target])
    loss = torch.stack(losses).mean()
    loss.backward()
    found = run_softmax(NegativeSamples(4, tail, log_weight), case, budget)
    assert found[0] == pytest.approx(loss.item(), abs=1e-6)
    for grad, tensor in zip(found[1:], (queries, matrix, bias), strict=True):
        torch.testing.assert_close(grad, tensor.grad)


def make_trainer(tmp_path, options=SMALL, cell="lstm", tied=True):
    path = write_text(tmp_path / "text.txt")
    text = read_text([path], "keep")
    vocabulary = TokenVocabulary(text.frequent_words(1))
    corpus = TokenCorpus.from_text(text, vocabulary, [1.0])
    config = NetworkConfig(cell, embedding=6, hidden=8, tied=tied)
    return Trainer(RecurrentNetwork.initialise(config, vocabulary, 0), corpus, options)


def test_sampled_softmax_estimates_the_normaliser_without_bias(tmp_path):
    trainer = make_trainer(tmp_path)
    scores = np.random.default_rng(0).normal(size=trainer.network.vocabulary.n_outputs)
    estimates = []
    for seed in range(4000):
        trainer.options = TrainingOptions(head=4, samples=4, seed=seed)
        negatives = trainer.sample_negatives()
        tail = scores[negatives.tail.numpy()] + negatives.log_weight.numpy()
        estimates.append(np.exp(scores[:4]).sum() + np.exp(tail).sum())
    error = np.std(estimates) / math.sqrt(len(estimates))
    assert np.mean(estimates) == pytest.approx(np.exp(scores).sum(), abs=4 * error)


@pytest.mark.parametrize(("cell", "tied"), [("rnn", True), ("lstm", True), ("lstm", False)])
def test_train_step_gradient_equals_finite_differences(tmp_path, cell, tied):
    # Finite differences of the scorer's own log-probabilities, which share no code with it.
    trainer = make_trainer(tmp_path, TrainingOptions(epochs=0, full_epochs=1), cell, tied)
    network = trainer.network
    batch = trainer.corpus.make_batches(64, 0, 0)[0]
    inputs, targets = trainer.corpus.inputs_and_targets(batch, network.vocabulary)

    def loss():
        found = network.log_probs(list(inputs.T), list(targets.T))
        return -np.concatenate(found).mean()

    surprisal = trainer.batch_loss(batch)
    surprisal.backward()
    assert surprisal.item() == pytest.approx(loss(), abs=1e-5)
    rng = np.random.default_rng(0)
    for name, tensor in network.weights.items():
        flat, grad = tensor.detach().view(-1), tensor.grad.reshape(-1)
        direction = torch.from_numpy(rng.normal(size=len(flat))).float()
        direction /= direction.norm()
        step, values = 3e-3, []
        for sign in (1, -1):
            flat.add_(direction, alpha=sign * step)
            values.append(loss())
            flat.sub_(direction, alpha=sign * step)
        slope = (values[0] - values[1]) / (2 * step)
        assert float(grad @ direction) == pytest.approx(slope, rel=0.02, abs=1e-4), name


def test_every_epoch_uses_each_sentence_once(tmp_path):
    corpus = make_trainer(tmp_path).corpus
    first, again, second = (corpus.make_batches(64, 5, epoch) for epoch in (0, 0, 1))
    for dealt in (first, second):
        assert sorted(np.concatenate(dealt)) == list(range(len(corpus)))
        for batch in dealt:
            assert len(set(corpus.lengths[batch])) == 1
            assert (corpus.lengths[batch] + 1).sum() <= 64
    assert all((a == b).all() for a, b in itertools.zip_longest(first, again))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(first, second, strict=False))


def test_weights_are_repetitions_per_epoch(tmp_path):
    paths = [write_text(tmp_path / "a.txt", 200, 1), write_text(tmp_path / "b.txt", 400, 2)]
    text = read_text(paths, "keep")
    corpus = TokenCorpus.from_text(text, TokenVocabulary(text.frequent_words(1)), [3.0, 0.5])
    seen = np.bincount(np.concatenate(corpus.make_batches(100, 0, 0)), minlength=600)
    assert (seen[:200] == 3).all()
    assert set(seen[200:]) == {0, 1}
    assert 150 < seen[200:].sum() < 250


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_learns_the_grammar(tmp_path, cell, precision):
    text, out = write_text(tmp_path / "text.txt", 600), tmp_path / "n.safetensors"
    options = TrainingOptions(**{**SMALL.__dict__, "precision": precision, "epochs": 6})
    record = train_recurrent(
        [text],
        out,
        config=NetworkConfig(cell, embedding=8, hidden=16),
        options=options,
        min_count=1,
        heldout_share=0.1,
        progress=False,
    )
    # The grammar's own perplexity: ln 6 + ln 4 + ln 2 for each sentence, and ln 6 for half of them,
    # over 5 or 7 tokens. A unigram model has about 9.
    best = math.exp((math.log(48) + 0.5 * math.log(6)) / 6)
    assert best * 0.95 < record["heldout_perplexity"] < best * 1.15
    assert record["finished"]
    assert record["log"][-1]["loss"] < record["log"][0]["loss"]
    assert not (tmp_path / "n.safetensors.state").exists()
    model = load_model(f"{cell}:{out}")
    natural, shuffled = model.score(["the dog sees a cat .", "cat the a dog . sees"])
    assert natural > shuffled + 5
    # The same call again finds the work done.
    before = out.read_bytes()
    again = train_recurrent(
        [text],
        out,
        config=NetworkConfig(cell, embedding=8, hidden=16),
        options=options,
        min_count=1,
        heldout_share=0.1,
        progress=False,
    )
    assert again["heldout_perplexity"] == record["heldout_perplexity"]
    assert out.read_bytes() == before


SCRIPT = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from contstim.models.recurrent import NetworkConfig
from contstim.training.recurrent import train_recurrent
from contstim.training.options import TrainingOptions
train_recurrent([Path(sys.argv[1])], Path(sys.argv[2]), config=NetworkConfig("lstm", 8, 16),
    options=TrainingOptions(**eval(sys.argv[3])), min_count=1, heldout_share=0.1)
"""

# As above, until its first state is saved.
KILLED = """
import os, signal
from contstim.training.recurrent import _TrainingRun
save = _TrainingRun.save_state
def die(training):
    save(training)
    os.kill(os.getpid(), signal.SIGKILL)
_TrainingRun.save_state = die
"""


def test_killed_training_continues_to_the_same_weights(tmp_path):
    text = write_text(tmp_path / "text.txt")
    options = {**SMALL.__dict__, "epochs": 12, "interval": 7}

    def start(out, script=SCRIPT):
        arguments = [sys.executable, "-c", script, str(text), str(out), repr(options)]
        return subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True)

    whole, killed = tmp_path / "whole", tmp_path / "killed"
    through = start(whole)
    cut = start(killed, KILLED + SCRIPT)
    cut.communicate()
    assert cut.returncode == -signal.SIGKILL
    assert (tmp_path / "killed.state").exists()
    assert not killed.exists() or not load_network(killed)[1]["finished"]
    resumed = start(killed)
    lines = [process.communicate()[1] for process in (through, resumed)]
    assert "held-out perplexity" in lines[0]
    assert through.returncode == resumed.returncode == 0
    first, second = load_network(whole), load_network(killed)
    for name, tensor in first[0].weights.items():
        assert torch.equal(tensor, second[0].weights[name]), name

    def course(record):
        return [(entry["step"], entry["loss"], entry["perplexity"]) for entry in record["log"]]

    assert course(first[1]) == course(second[1])
    assert first[1]["finished"]
    assert second[1]["finished"]


def train(tmp_path, text, **arguments):
    defaults = {
        "config": NetworkConfig("rnn", 4, 4),
        "options": SMALL,
        "min_count": 1,
        "heldout_share": 0.1,
        "progress": False,
    }
    return train_recurrent(text, tmp_path / "n", **{**defaults, **arguments})


def interrupt(monkeypatch, step):
    """Make the next training stop at `step`, as Ctrl-C would."""
    advance = Trainer.train_step

    def advance_until(trainer):
        if trainer.step == step:
            raise KeyboardInterrupt
        return advance(trainer)

    monkeypatch.setattr(Trainer, "train_step", advance_until)


def test_early_stopping_returns_to_the_best_weights(tmp_path, monkeypatch):
    text = write_text(tmp_path / "text.txt", 60)
    options = TrainingOptions(
        **{**SMALL.__dict__, "epochs": 400, "patience": 2, "interval": 5, "learning_rate": 0.1}
    )
    record = train(tmp_path, [text], options=options)
    # 400 passes of 3 batches or more, evaluated every 5 steps, would be 240 evaluations.
    course = [entry["perplexity"] for entry in record["log"]]
    assert len(course) < 100
    assert record["heldout_perplexity"] == pytest.approx(min(course), abs=1e-3)
    # The last phase takes up the best weights, not those that ended the phase before.
    switch = next(i for i, entry in enumerate(record["log"]) if entry["step"] > 1200)
    best = min(course[:switch])
    assert best == course[switch - 3] < 0.99 * course[switch - 1]
    assert course[switch] == pytest.approx(best, rel=0.003)
    # Interrupted anywhere, it ends the same: the best weights so far are part of the state.
    (tmp_path / "n").rename(tmp_path / "whole")
    for steps in (6 + 5 * (switch - 3), 6 + 5 * (switch - 2)):
        interrupt(monkeypatch, steps)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path, [text], options=options)
        monkeypatch.undo()
        again = train(tmp_path, [text], options=options)
        assert [entry["perplexity"] for entry in again["log"]] == course
        assert again["heldout_perplexity"] == record["heldout_perplexity"]
        (tmp_path / "n").unlink()


def test_states_of_another_training_are_rejected(tmp_path, monkeypatch):
    text = write_text(tmp_path / "text.txt")

    interrupt(monkeypatch, 12)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, [text])
    monkeypatch.undo()
    assert (tmp_path / "n.state").exists()
    other = write_text(tmp_path / "other.txt", seed=9)
    for arguments in ({"config": NetworkConfig("lstm", 4, 4)}, {"heldout": other}):
        with pytest.raises(
            InputError, match=r"n.state' belongs to a training run with different text"
        ):
            train(tmp_path, [text], **arguments)
    # A longer run of the same training is let go on.
    longer = TrainingOptions(**{**SMALL.__dict__, "epochs": 4})
    assert train(tmp_path, [text], options=longer)["finished"]
    with pytest.raises(OutputError, match="exists and belongs to a different training run; delete"):
        train(tmp_path, [other])
    (tmp_path / "n").write_text("a poem")
    with pytest.raises(OutputError, match="exists and belongs to a different training run; delete"):
        train(tmp_path, [text])
    (tmp_path / "n").unlink()
    (tmp_path / "n.state").write_text("half")
    with pytest.raises(InputError, match=r"n.state' is damaged; delete it"):
        train(tmp_path, [text])


def test_text_is_read_from_gzip_and_several_files(tmp_path):
    plain = write_text(tmp_path / "a.txt", 100)
    packed = tmp_path / "b.txt.gz"
    with gzip.open(packed, "wt", encoding="utf-8") as file:
        file.write("\n\nthe dog sees.\n" * 50)
    record = train(tmp_path, [plain, packed], punctuation="split", weights=[1, 2], heldout=plain)
    assert record["sentences"] == 150
    words = load_network(tmp_path / "n")[0].vocabulary.words
    assert words[:2] == ("the", ".") or words[:2] == (".", "the")
    assert "sees." not in words


def test_vocabulary_file_determines_the_words(tmp_path):
    text, listed = write_text(tmp_path / "text.txt"), tmp_path / "words.txt"
    listed.write_text("cat\nthe\n<unk>\nwhale\ncat\n\n", encoding="utf-8")
    read = read_text([text], "keep")
    assert read.sort_by_frequency(read_words(listed)) == ("the", "cat", "whale")
    train(tmp_path, [text], vocabulary=listed)
    model = load_model(f"rnn:{tmp_path / 'n'}")
    assert model.in_vocabulary(["cat", "whale", "dog"]).tolist() == [True, True, False]
    listed.write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="a vocabulary needs at least one word, got none"):
        TokenVocabulary(read.sort_by_frequency(read_words(listed)))


def test_invalid_arguments_are_rejected(tmp_path):
    text, bad = write_text(tmp_path / "text.txt"), tmp_path / "bad.txt"

    def expect(error, message, paths=(text,), **arguments):
        with pytest.raises(error, match=message) as caught:
            train(tmp_path, list(paths), **arguments)
        assert "\n" not in str(caught.value)

    expect(InputError, "at least one text file", ())
    expect(InputError, "there is no file .*none.txt; check the path", [tmp_path / "none.txt"])
    bad.write_text("\n \n")
    expect(InputError, "there is no sentence in '.*bad.txt'", [text, bad])
    expect(InputError, "there is no sentence in", [bad])
    bad.write_bytes(b"caf\xe9 au lait\n")
    expect(InputError, "bad.txt, line 1 is not UTF-8 text", [bad])
    bad.write_text("a " * 3000)
    expect(InputError, "line 1 of '.*bad.txt' has 3000 tokens", [bad])
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress(b"the dog sees .\n" * 99)[:30])
    expect(InputError, "broken.gz is not a whole gzip file", [broken])
    broken.write_text("plain")
    expect(InputError, "broken.gz is not a whole gzip file", [broken])
    bad.write_text("one sentence\n")
    expect(InputError, "of 1 sentences; give more", [bad])
    expect(InputError, "no word occurs 9999 times", min_count=9999)
    expect(InputError, "storage must be one of float32, float16, int8, got 'int4'", storage="int4")
    expect(InputError, "punctuation must be one of keep, split, drop", punctuation="none")
    expect(InputError, "one weight above 0 and up to 10000 for each of 1 files", weights=[1, 2])
    expect(InputError, "one weight above 0 and up to 10000 for each of 1 files", weights=[0])
    with pytest.raises(OutputError, match=r"cannot write '.*no/n': No such file or directory"):
        train(tmp_path / "no", [text])
    for options in ({"precision": "half"}, {"epochs": 0, "full_epochs": 0}, {"patience": 0}):
        with pytest.raises(InputError):
            TrainingOptions(**options)


@pytest.mark.parametrize("value", [1e5, math.nan])
def test_diverging_training_is_reported(tmp_path, monkeypatch, value):
    text = write_text(tmp_path / "text.txt")
    advance, sound = Trainer.train_step, [0]

    def wild(trainer):
        loss = advance(trainer)
        if trainer.step > sound[0]:
            with torch.no_grad():  # as after a step that is far too large
                trainer.network.weights["output_bias"][0] = value
        return loss

    monkeypatch.setattr(Trainer, "train_step", wild)
    with pytest.raises(InputError) as refused:
        train(tmp_path, [text])
    assert str(refused.value) == (
        "training has diverged: the held-out perplexity was never finite; lower the learning rate"
    )
    assert list(tmp_path.iterdir()) == [text]
    # What was good before is kept.
    sound[0] = SMALL.interval
    record = train(tmp_path, [text])
    assert record["heldout_perplexity"] < 100
    assert not any(entry["perplexity"] < 100 for entry in record["log"][1:])


def test_unknown_class_is_trained_on_rare_words(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("".join(f"the rare{i} sees .\n" for i in range(300)), encoding="utf-8")
    train(tmp_path, [text], min_count=5, options=TrainingOptions(**{**SMALL.__dict__, "epochs": 8}))
    model = load_model(f"rnn:{tmp_path / 'n'}?unknown=unk")
    assert model.score_tokens(["the rare9999 sees ."])[0].log_probs[1] > math.log(0.8)
    assert isinstance(load_network(tmp_path / "n")[0].vocabulary, TokenVocabulary)
