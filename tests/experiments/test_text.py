"""Text for small language models: read, cut into byte pairs and windows."""

from __future__ import annotations

import gzip
from itertools import pairwise

import numpy as np
import pytest

from identifiable._checks import DataError
from identifiable.experiments.text import byte_pair_tokens, made_text, text_lines


def joined(found) -> str:
    return b"".join(found.vocabulary[k] for k in found.ids).decode()


@pytest.mark.parametrize("text", ["low low lower", "aaa aaaa aa aaa", "naïve naïve — café\n\n  café", "x", ""])
def test_tokens_joined_again_are_the_text(text):
    assert joined(byte_pair_tokens(text, 300)) == text


def test_the_most_frequent_pair_becomes_a_token_and_words_are_not_joined():
    found = byte_pair_tokens("ab ab ab ac", 5)  # blank, a, b, c, and one pair
    assert found.vocabulary == (b" ", b"a", b"b", b"c", b" a")
    assert byte_pair_tokens("ab ab ab ac", 4).vocabulary == (b" ", b"a", b"b", b"c")
    many = byte_pair_tokens("one two one two one two", 100).vocabulary
    assert b" one" in many
    assert not any(token.strip().count(b" ") for token in many)


def test_tokens_equal_a_plain_implementation_of_byte_pairs():
    text = made_text(seed=3, words=300)
    size = 40
    found = byte_pair_tokens(text, size)
    words = [[bytes([b]) for b in (" " * (k > 0) + word).encode()] for k, word in enumerate(text.split(" "))]
    vocabulary = sorted({piece for word in words for piece in word})
    while len(vocabulary) < size:
        counts = {}
        for word in words:
            for pair in pairwise(word):
                counts[pair] = counts.get(pair, 0) + 1
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        vocabulary.append(best[0] + best[1])
        for word in words:
            k = 0
            while k + 1 < len(word):
                if (word[k], word[k + 1]) == best:
                    word[k : k + 2] = [best[0] + best[1]]
                k += 1
    assert list(found.vocabulary) == vocabulary
    assert [found.vocabulary[k] for k in found.ids] == [piece for word in words for piece in word]


def test_windows_share_one_token_with_the_next():
    found = byte_pair_tokens("abcdefghijk", 11)
    windows = found.windows(3)
    assert windows.shape == (3, 4)
    np.testing.assert_array_equal(windows[:-1, -1], windows[1:, 0])
    assert found.windows(20).shape == (0, 21)


def test_a_text_is_read_plain_or_packed(tmp_path):
    (tmp_path / "a.txt").write_bytes("é text\r\n\nend".encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress((tmp_path / "a.txt").read_bytes()))
    for name in ("a.txt", "a.txt.gz"):
        assert list(text_lines(tmp_path / name)) == ["é text\r\n", "\n", "end"]


def test_a_text_is_read_no_further_than_it_is_asked_for(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"first\n\xff\xfe\n")
    lines = text_lines(tmp_path / "a.txt")
    assert next(lines) == "first\n"
    with pytest.raises(DataError, match=r"a\.txt"):
        next(lines)


@pytest.mark.parametrize(
    ("name", "content"),
    [("missing.txt", None), ("latin.txt", b"\xff\xfe"), ("cut.gz", gzip.compress(b"abc", mtime=0)[:-3])],
)
def test_a_text_that_cannot_be_read_is_named(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        list(text_lines(tmp_path / name))


def test_a_made_text_depends_on_the_seed_alone():
    assert made_text(seed=1, words=50) == made_text(seed=1, words=50) != made_text(seed=2, words=50)
