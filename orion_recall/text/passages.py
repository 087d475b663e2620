"""Passages of a long text: overlapping spans that an embedding model sees whole.

A model sees the first 256 tokens of a text. What lies beyond is embedded in further passages, cut where sentences
end. Tokens are estimated from characters, since the model may be on a server; the estimate is rather too high.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice
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
    pieces = _Pieces(text, most_tokens=room * MOST_PASSAGES)
    if before + pieces.tokens[-1] <= WINDOW:
        return ()
    return tuple(islice(pieces.passages(room), MOST_PASSAGES))


class _Pieces:
    """The words and signs at the beginning of a text, with the tokens before each of them."""

    def __init__(self, text: str, *, most_tokens: int) -> None:
        self.spans: list[Span] = []
        self.tokens: list[int] = [0]
        self.sentences: list[int] = []  # the pieces that begin one
        end, ends_sentence = 0, True
        for match in _PIECE.finditer(text):
            start = match.start()
            if start > end and (ends_sentence or "\n" in text[end:start]):
                self.sentences.append(len(self.spans))
            piece, end = match[0], match.end()
            ends_sentence = piece in _ENDS or (ends_sentence and piece in _CLOSES)
            self.spans.append(Span(start, end))
            self.tokens.append(self.tokens[-1] + _tokens(match))
            if self.tokens[-1] > most_tokens:
                break

    def passages(self, room: int) -> Iterator[Span]:
        """Spans of at most `room` tokens, and of one piece at least."""
        begin, last = 0, len(self.spans)
        while begin < last:
            end = max(begin + 1, bisect_right(self.tokens, self.tokens[begin] + room) - 1)
            if end < last:
                end = self._sentence_before(end, begin + (end - begin) // 2) or end
            yield Span(self.spans[begin].start, self.spans[end - 1].end)
            if end == last:
                return
            begin = max(begin + 1, self._overlap(end))

    def _overlap(self, end: int) -> int:
        """The first piece of the next passage: a sentence's, if one begins within the overlap."""
        first = bisect_left(self.tokens, self.tokens[end] - OVERLAP)
        place = bisect_left(self.sentences, first)
        return self.sentences[place] if place < len(self.sentences) and self.sentences[place] < end else first

    def _sentence_before(self, end: int, begin: int) -> int | None:
        """The last piece up to `end` that begins a sentence, after `begin`."""
        place = bisect_right(self.sentences, end) - 1
        return self.sentences[place] if place >= 0 and self.sentences[place] > begin else None


def _tokens(match: re.Match[str]) -> int:
    """Tokens of a piece, estimated."""
    piece = match[0]
    if not piece.isascii():
        return len(piece)
    return 1 + (len(piece) - 1) // (3 if piece.isdigit() else _CHARS_A_TOKEN)
