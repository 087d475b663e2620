"""Repetition in a bundle: items that say little that one item before them has not said."""

from __future__ import annotations

from collections.abc import Set

from orion_recall.text.normal import content_words, stems

_READ_CHARS = 1000


class Said:
    """The items of a bundle by the stems of their words, without those of the question.

    What all of a kind have in common is mostly in the question, so it says nothing about two of them.
    """

    def __init__(self, asked: Set[str], *, most: float) -> None:
        """`asked` are the question's stems; `most` is the share of words that may be repeated, 1 for all."""
        self._asked, self._most = asked, most
        self._items: list[frozenset[str]] = []

    def add(self, text: str) -> None:
        """Takes up an item of the bundle."""
        if self._most < 1:
            self._items.append(self._of(text))

    def repeats(self, text: str) -> bool:
        """Whether one item has more of the text's words than may be repeated."""
        if self._most >= 1 or not self._items:
            return False
        own = self._of(text)
        return any(len(own & other) > self._most * len(own) for other in self._items)

    def _of(self, text: str) -> frozenset[str]:
        return stems(frozenset(content_words(text[:_READ_CHARS]))) - self._asked
