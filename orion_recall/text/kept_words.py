"""The words of texts as sets of numbers, kept from one recall to the next: the same memories are compared again."""

from __future__ import annotations

from orion_recall.text.normal import words

_LONGEST_CHARS = 600
_MOST_KEPT = 4096
"""Texts whose words are kept: in about 8 MB where each has 25 words, in 35 MB where all have 600 characters."""
_kept: dict[int, frozenset[int]] = {}


def word_set(text: str) -> frozenset[int]:
    """The hashes of the folded words of a text, each once: two texts have a word in common as they have its hash.

    Sets are kept by the hash of the text, so that no text is kept; those of longer texts are made each time.
    Thread-safe.
    """
    key = hash(text)  # of 64 bits that nobody outside can foresee
    if (found := _kept.get(key)) is None:
        found = frozenset(map(hash, words(text)))
        if len(text) <= _LONGEST_CHARS:
            if len(_kept) >= _MOST_KEPT:
                _kept.clear()
            _kept[key] = found
    return found
