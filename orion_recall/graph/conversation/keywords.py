"""Keywords of a turn: what two turns must share to have a topic in common.

Words of more than three characters, without stop words and without those that only say that something is
remembered. They are folded, without possessives, and not stemmed.
"""

from __future__ import annotations

from typing import Final

from orion_recall.text.normal import content_words, without_possessive

_SHORTEST: Final = 4
# Words of looking back and of plain talk: two turns that share them need not have a topic in common.
_OF_TALK: Final = frozenset(
    """remember remembered recall earlier previously already discuss discussed mention mentioned talk talked talking
    talks said says tell told asked know knew think thought thanks thank please really great good nice well sure
    sounds yeah haha hello okay sorry maybe like even much still going want wanted there don't didn't can't won't
    isn't you've we've they've""".split()
)


def turn_keywords(text: str) -> frozenset[str]:
    """The keywords of a text."""
    bare = (without_possessive(word) for word in content_words(text) if word not in _OF_TALK)
    return frozenset(word for word in bare if len(word) >= _SHORTEST and word not in _OF_TALK)
