"""The snippet of a memory: the window of its text where the question's words stand closest."""

from __future__ import annotations

from collections.abc import Sequence, Set

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.text.normal import without_possessive

# Words are compared by so many of their first characters: `repairing` finds `repaired`.
_STEM = 5
# Tokens that the two ellipses of a window may take.
_ELLIPSES = 2
_FEWEST_CHARS = 8


def stems(terms: Set[str]) -> frozenset[str]:
    """The stems that `snippet` looks for: the beginnings of the question's words."""
    return frozenset(without_possessive(term)[:_STEM] for term in terms) - {""}


def snippet(text: str, wanted: Set[str], max_tokens: int, tokens: TokenCounter) -> tuple[str, int]:
    """The text when it fits, else its best window, marked with … where something was left out; and its tokens.

    `wanted` are stems. Tokens are counted as the text stands in a bundle: after a space, before a newline.
    """
    used = line_tokens(text, tokens)
    if used <= max_tokens:
        return text, used
    places = _places(text, wanted)
    chars = len(text) * max(1, max_tokens - _ELLIPSES) // used
    while chars >= _FEWEST_CHARS:
        window = _window(text, places, chars)
        used = line_tokens(window, tokens)
        if used <= max_tokens:
            return window, used
        chars = min(chars * 9 // 10, chars * max_tokens // used)
    for left in range(max_tokens - _ELLIPSES, 0, -1):
        kept = tokens.trim(text, left)
        if (used := line_tokens(kept, tokens)) <= max_tokens:
            return kept, used
    return "", line_tokens("", tokens)


def line_tokens(text: str, tokens: TokenCounter) -> int:
    """The tokens of what stands between a line's head and the next line.

    Neither boundary is ever inside a token, so that a bundle's tokens are the sum of its parts'.
    """
    return tokens.count(f" {text}\n")


def _places(text: str, wanted: Set[str]) -> list[tuple[int, int]]:
    """Where the wanted words begin and end, in order."""
    folded = text.casefold()
    if len(folded) != len(text):  # ß and its like: places must stay places of the text
        folded = "".join(character if len(character.casefold()) > 1 else character.casefold() for character in text)
    found: list[tuple[int, int]] = []
    for stem in wanted:
        start = folded.find(stem)
        while start >= 0:
            end = start + len(stem)
            begins = start == 0 or not folded[start - 1].isalnum()
            # A stem shorter than the longest is a whole word.
            if begins and (len(stem) == _STEM or end == len(folded) or not folded[end].isalnum()):
                space = folded.find(" ", end)
                found.append((start, len(folded) if space < 0 else space))
            start = folded.find(stem, end)
    found.sort()
    return found


def _window(text: str, places: Sequence[tuple[int, int]], chars: int) -> str:
    """At most so many characters around the most wanted words, whole words where there are spaces."""
    first, last = _densest(places, chars)
    begin = max(0, min(first - max(0, chars - (last - first)) // 2, len(text) - chars))
    if begin > 0 and text[begin - 1] != " ":
        space = text.find(" ", begin, first)
        begin = space + 1 if space >= 0 else begin
    end = begin + chars
    if end < len(text):
        space = text.rfind(" ", begin + 1, end + 1)
        end = space if space > first else end
    window = text[begin:end].strip()
    return ("… " if begin > 0 else "") + window + (" …" if end < len(text) else "")


def _densest(places: Sequence[tuple[int, int]], chars: int) -> tuple[int, int]:
    """From where to where the most wanted words stand within so many characters: the first such place."""
    best, found, left = 0, (0, 0), 0
    for right, (_, end) in enumerate(places):
        while end - places[left][0] > chars and left < right:
            left += 1
        if right - left + 1 > best:
            best, found = right - left + 1, (places[left][0], end)
    return found
