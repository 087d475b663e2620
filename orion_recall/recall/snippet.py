"""The heart of a memory: the window of its text where the question's words stand closest."""

from __future__ import annotations

import re

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.text import without_possessive

_WORD = re.compile(r"\S+")
_EDGES = ".,;:!?\"'“”‘’()"
_PREFIX = 5


def snippet(text: str, terms: frozenset[str], max_tokens: int, tokens: TokenCounter) -> str:
    """The text when it fits, else its best window, marked with … where something was left out."""
    if tokens.count(text) <= max_tokens:
        return text
    spans = [match.span() for match in _WORD.finditer(text)]
    stems = frozenset(_stem(term) for term in terms)
    # Written out rather than called: a long memory has hundreds of words, and every query trims several.
    wanted = [
        text[start:end].strip(_EDGES).casefold().removesuffix("'s").removesuffix("’s")[:_PREFIX] in stems
        for start, end in spans
    ]
    size = max(1, min(len(spans), max_tokens * 3 // 4))
    while True:
        first = _densest(wanted, size)
        last = min(first + size, len(spans))
        window = text[spans[first][0] : spans[last - 1][1]]
        window = ("… " if first > 0 else "") + window + (" …" if last < len(spans) else "")
        if tokens.count(window) <= max_tokens:
            return window
        if size == 1:
            return tokens.trim(window, max_tokens)
        size = max(1, size * 4 // 5)


def _stem(word: str) -> str:
    return without_possessive(word)[:_PREFIX]


def _densest(wanted: list[bool], size: int) -> int:
    """Where the window of `size` words with the most wanted ones begins; a little before the first of them."""
    count = best = sum(wanted[:size])
    best_first = 0
    for first in range(1, len(wanted) - size + 1):
        count += wanted[first + size - 1] - wanted[first - 1]
        if count > best:
            best, best_first = count, first
    if best == 0:
        return 0
    # The first best window ends at a wanted word: moved on a little, the wanted words stand in its middle.
    lead = next(offset for offset, is_wanted in enumerate(wanted[best_first:]) if is_wanted)
    return min(best_first + lead // 2, len(wanted) - size)
