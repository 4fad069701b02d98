"""Write a pool of sentences with a language model, tilted towards what models disagree on.

Models, floors and targets are named as for `contstim synthesize`. The writer (--writer) continues a
prompt of natural sentences; its next words are drawn more often where they lower what rejecting
models give the sentence, and raise what accepting ones give it. The table is one of scores, as
`contstim score` writes it, of the natural sentences and of the written ones that keep the floors
beside some natural sentence, under the compared models, with the columns source, writer_log_prob,
writer_worst and writer_end: `contstim select natural` and `contstim select set` take it as it is.
The strategy is fluent here unless --strategy names another that writes pools; options of others are
refused. Work is kept and gone on with as by `contstim synthesize`, which with --strategy
fluent gives the sentences of such a pool to the natural ones as triplets.

Exit status: 0 done, 1 something could not be written or scored, 2 bad input.

Examples:
  contstim write --pair contstim:bigram contstim:trigram --begun 400 --out pool.csv
  contstim write --target one-against-all --model contstim:bigram --model contstim:trigram
    --model contstim:rnn --floor readable --out pool.csv
  contstim select set pool.csv --n 20 --out pairs.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

from contstim.cli import synthesize
from contstim.cli.parsing import CommandParser
from contstim.errors import InputError
from contstim.files import is_stream
from contstim.pipeline.options import SynthesisOptions
from contstim.pipeline.stages.written import POOL


def configure(parser: CommandParser) -> None:
    """Add the command's arguments."""
    synthesize.configure(parser)
    parser.set_defaults(strategy="fluent")


def run(args: argparse.Namespace) -> int:
    """Write the pool."""
    plan = synthesize.plan_of(args)
    if not POOL.is_in(plan):
        options = plan.table(SynthesisOptions)
        raise InputError(
            f"the strategy {options.strategy!r} with these limits on words writes no pool; leave "
            "out --fixed, --changed, --most-changes, --words-at and --alike, and name fluent"
        )
    if args.out == "-" or is_stream(Path(args.out)):
        raise InputError("a pool takes a while to write; give --out FILE, so that it can be kept")
    return synthesize.run(args, plan, POOL)
