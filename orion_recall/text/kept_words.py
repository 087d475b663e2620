"""The words of texts as sets, kept from one recall to the next: the same memories are compared again and again."""

from __future__ import annotations

from functools import lru_cache

from orion_recall.text.normal import words

_LONGEST_CHARS = 1000
_KEPT = 2048
"""Texts whose words are kept: in about 8 MB where each has 30 words, in 50 MB where all have 1,000 characters."""


def word_set(text: str) -> frozenset[str]:
    """The folded words of a text, each once. Of a longer text than 1,000 characters they are not kept."""
    return _kept(text) if len(text) <= _LONGEST_CHARS else frozenset(words(text))


@lru_cache(maxsize=_KEPT)
def _kept(text: str) -> frozenset[str]:
    return frozenset(words(text))
