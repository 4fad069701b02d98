"""Write the vocabulary of these experiments: the most frequent of the bundled words."""

import argparse

from contstim import Vocabulary, WordList, bundled_vocabulary

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int, help="words allowed after the first")
    parser.add_argument("out", help="the vocabulary file (CSV)")
    args = parser.parse_args()
    words = bundled_vocabulary()
    kept = words.elsewhere.words[: args.n]
    folded = {word.casefold() for word in kept}
    first = [word for word in words.first if word.casefold() in folded]
    frequencies = {
        word: words.frequencies[word] for word in (*first, *kept) if word in words.frequencies
    }
    Vocabulary(
        WordList.from_words(first), WordList.from_words(kept), words.repeatable, frequencies
    ).save(args.out)
