"""Text to train small language models on: read, cut into tokens, cut into windows."""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.io.containers import check_is_file, reason

WORD = re.compile(r"\s?\S+|\s")  # tokens do not reach over words; a word has the blank before it
GZIP = b"\x1f\x8b"
SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "sa", "to", "vi")
MADE_WORDS = 60


def text_lines(path: str | Path) -> Iterator[str]:
    """The lines of a text in UTF-8 with their ends, read as they are asked for; plain or gzipped."""
    path = Path(path)
    check_is_file(path)
    try:
        with path.open("rb") as plain, gzip.open(plain) if plain.peek(2)[:2] == GZIP else plain as lines:
            for line in lines:
                yield line.decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a text in UTF-8 ({reason(error)}); check the file.") from None


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text as numbers: `vocabulary[ids[k]]` are the bytes of token k."""

    ids: NDArray[np.int64]
    vocabulary: tuple[bytes, ...]

    def windows(self, context: int) -> NDArray[np.int64]:
        """Windows of `context` + 1 tokens, one after the other: each begins with the last token of the one before it."""
        count = max((len(self.ids) - 1) // context, 0)
        found: NDArray[np.int64] = self.ids[np.arange(count)[:, None] * context + np.arange(context + 1)]
        return found


def byte_pair_tokens(text: str, size: int) -> Tokens:
    """A text in at most `size` tokens of its own: bytes, then the pair of neighbours that is most frequent, again and again.

    Implements byte pair encoding (Gage 1994; Sennrich et al. 2016) within words. Of pairs as frequent, the one whose bytes come
    first is joined.

    >>> found = byte_pair_tokens("low low lower", 9)
    >>> [found.vocabulary[k].decode() for k in found.ids]
    ['low', ' low', ' low', 'e', 'r']
    """
    words = WORD.findall(text)
    counts = Counter(words)
    vocabulary = [bytes([value]) for value in sorted(set(text.encode()))]
    place = {value: k for k, value in enumerate(vocabulary)}
    pieces = {word: [place[bytes([value])] for value in word.encode()] for word in counts}
    pairs: Counter[tuple[int, int]] = Counter()
    holders: defaultdict[tuple[int, int], set[str]] = defaultdict(set)

    def note(word: str, sign: int) -> None:
        own = pieces[word]
        for pair in pairwise(own):
            pairs[pair] += sign * counts[word]
            holders[pair].add(word)

    for word in counts:
        note(word, 1)
    while len(vocabulary) < size:
        most = max(pairs.values(), default=0)
        if most < 2:
            break
        best = min((p for p, count in pairs.items() if count == most), key=lambda p: [vocabulary[k] for k in p])
        vocabulary.append(vocabulary[best[0]] + vocabulary[best[1]])
        for word in holders.pop(best):
            note(word, -1)
            pieces[word] = _joined(pieces[word], best, len(vocabulary) - 1)
            note(word, 1)
        del pairs[best]
    return Tokens(np.array([k for word in words for k in pieces[word]], dtype=np.int64), tuple(vocabulary))


def _joined(pieces: list[int], pair: tuple[int, int], as_one: int) -> list[int]:
    found: list[int] = []
    for piece in pieces:
        if found and (found[-1], piece) == pair:
            found[-1] = as_one
        else:
            found.append(piece)
    return found


def made_text(*, seed: int, words: int = 12_000) -> str:
    """A text that needs no file: words of a few syllables, each drawn after the one before it by a sparse Markov chain.

    >>> made_text(seed=0, words=3).count(" ")
    2
    """
    rng = np.random.default_rng([seed, 9])
    names = ["".join(rng.choice(SYLLABLES, size=rng.integers(1, 4))) for _ in range(MADE_WORDS)]
    following = rng.integers(MADE_WORDS, size=(MADE_WORDS, 4))
    word, found = 0, []
    for choice in rng.integers(4, size=words):
        found.append(names[word])
        word = following[word, choice]
    return " ".join(found)
