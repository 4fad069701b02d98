"""Choose among a first pass's hypotheses with the scores of sentence models.

Reads n-best lists (JSON lines: id, split, reference, hypotheses with text and score; see
docs/rescoring.md), adds weighted model scores to the first pass's, tunes the weights on the part
"dev", and writes what that changes on the part "test": summary.csv, weights.csv, utterances.csv.

Examples:
  contstim rescore nbest.jsonl --model "contstim:trigram?unknown=unk" --out results
  contstim rescore nbest.jsonl --model hf:gpt2 --length --final . --cases book.txt --out results
  contstim rescore translations.jsonl --measure bleu --model hf:gpt2 --out results
"""

from __future__ import annotations

import argparse

from contstim.cli.common import tell, tell_model
from contstim.cli.parsing import CommandParser, given
from contstim.models.cache import ScoreCache
from contstim.models.registry import load_models
from contstim.rescoring import RESCORING_MEASURES, measure_named
from contstim.rescoring.nbest import SentenceForm, learn_cases, read_nbest, score_hypotheses
from contstim.rescoring.rescore import RescoringOptions, rescore
from contstim.text import read_sentences


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    parser.add("nbest", "n-best lists, JSON lines; - reads standard input")
    what = "a model whose score is given a weight"
    parser.add("--model [NAME=]SPEC", what, required=True, several=True)
    parser.add(
        "--measure",
        "what is tuned to and reported: word error rate (default) or BLEU",
        choices=sorted(RESCORING_MEASURES),
        default="wer",
    )
    parser.add_fields(RescoringOptions, "length")
    form = parser.add_argument_group("how hypotheses are written for the models (errors: as given)")
    parser.add_fields(SentenceForm, to=form)
    what = "write words in lower case as they mostly stand in this text, one sentence per line"
    parser.add("--cases TEXT", what, to=form)
    parser.add_cache("keep and reuse the models' scores in this folder")
    parser.add_fields(RescoringOptions, "n_bootstrap")
    parser.add_out_folder()
    parser.add_seed()


def run(args: argparse.Namespace) -> int:
    """Rescore and write."""
    measure = measure_named(args.measure)
    nbest = read_nbest(args.nbest)
    shared = nbest.shared_references
    if shared:
        tell(f"{shared} references stand in both parts, dev and test")
    cases = {} if args.cases is None else learn_cases(read_sentences(args.cases))
    form = SentenceForm(args.capitalise, args.final, cases)
    tell(f"hypotheses are scored {form}")
    cache = None if args.cache is None else ScoreCache(args.cache)
    scores = {}
    for model in load_models(args.model):
        tell_model(model)
        scores[model.name] = score_hypotheses(nbest, model, form, cache)
    options = RescoringOptions(**given(args, RescoringOptions))
    rescoring = rescore(nbest, scores, measure, options)
    rescoring.write(args.out)
    for name, weight in rescoring.weights.items():
        print(f"weight of {name}: {weight:.4g}")
    print(rescoring.summary.to_string(index=False, float_format="%.4f", na_rep=""))
    print(f"\n{args.out}")
    return 0
