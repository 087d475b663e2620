"""Passages of a long text: overlapping spans that an embedding model sees whole.

A model sees the first 256 tokens of a text. What lies beyond is embedded in further passages, cut where sentences
end. Tokens are estimated from characters, since the model may be on a server; the estimate is rather too high.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

WINDOW: Final = 230
"""Estimated tokens of a text, with the head that is embedded before it, that is embedded as a whole."""
PASSAGE: Final = 200
OVERLAP: Final = 50
"""Estimated tokens of a passage without its head, and of what it repeats of the passage before it."""
MOST_PASSAGES: Final = 32
"""Passages of a text, some 20,000 characters of prose; of what lies beyond only the words are searched."""

_FEWEST: Final = 60
# Every token has a character at least: a text of fewer characters fits.
_FITS_CHARS: Final = WINDOW
_PIECE: Final = re.compile(r"[^\W_]{1,32}|[^\w\s]|_")
_ENDS: Final = frozenset(".!?…。！？")
_CLOSES: Final = frozenset("\"'”’)]*_»")
# Pieces of a word that models of English know are about this long; of other scripts a character is one.
_CHARS_A_TOKEN: Final = 8


FIRST_PASSAGES: Final[Mapping[int, int]] = MappingProxyType({})
"""Numbers of passages by the keys of their memories: of every memory the first."""


class Span(NamedTuple):
    """From `start` up to, and without, `end`, in characters."""

    start: int
    end: int


def passages(text: str, head: str = "") -> tuple[Span, ...]:
    """The passages of a text that is embedded after `head`, in order; none for a text that fits as a whole."""
    if len(head) + len(text) <= _FITS_CHARS:
        return ()
    before = sum(_tokens(match) for match in _PIECE.finditer(head))
    room = max(_FEWEST, min(PASSAGE, WINDOW - before))
    # The words and signs at the beginning, the tokens before each of them, and which of them begin a sentence.
    spans: list[Span] = []
    tokens, sentences = [0], list[int]()
    end, ends_sentence = 0, True
    for match in _PIECE.finditer(text):
        start = match.start()
        if start > end and (ends_sentence or "\n" in text[end:start]):
            sentences.append(len(spans))
        piece, end = match[0], match.end()
        ends_sentence = piece in _ENDS or (ends_sentence and piece in _CLOSES)
        spans.append(Span(start, end))
        tokens.append(tokens[-1] + _tokens(match))
        if tokens[-1] > room * MOST_PASSAGES:
            break
    if before + tokens[-1] <= WINDOW:
        return ()
    found: list[Span] = []
    begin = 0
    while begin < len(spans) and len(found) < MOST_PASSAGES:
        last = max(begin + 1, bisect_right(tokens, tokens[begin] + room) - 1)
        if last < len(spans):  # up to the last sentence that ends in its second half
            place = bisect_right(sentences, last) - 1
            if place >= 0 and sentences[place] > begin + (last - begin) // 2:
                last = sentences[place]
        found.append(Span(spans[begin].start, spans[last - 1].end))
        if last == len(spans):
            break
        # From the first sentence that begins within the overlap, if one does.
        first = bisect_left(tokens, tokens[last] - OVERLAP)
        place = bisect_left(sentences, first)
        is_sentence = place < len(sentences) and sentences[place] < last
        begin = max(begin + 1, sentences[place] if is_sentence else first)
    return tuple(found)


def _tokens(match: re.Match[str]) -> int:
    """Tokens of a piece, estimated."""
    piece = match[0]
    if not piece.isascii():
        return len(piece)
    return 1 + (len(piece) - 1) // (3 if piece.isdigit() else _CHARS_A_TOKEN)
