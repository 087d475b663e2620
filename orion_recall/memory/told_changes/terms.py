"""Terms: rough stems of folded words, and the families of words that they are of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from orion_recall.memory.told_changes.word_families import FAMILIES
from orion_recall.text.normal import without_possessive

_WRITTEN = re.compile(r"\w+(?:['’-]\w+)*")
_NOBODY: frozenset[str] = frozenset()
_SHORTEST_PLURAL = 4
_FAMILIES_OF: dict[str, frozenset[str]] = {}
for _name, _listed in FAMILIES.items():
    for _word in _listed.split():
        _FAMILIES_OF[_word] = _FAMILIES_OF.get(_word, frozenset()) | {_name}
FIRST_OF_TWO = frozenset(word.split("_")[0] for word in _FAMILIES_OF if "_" in word)


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A rough stem of a folded English word."""
    word = without_possessive(word)
    if len(word) <= 3 or word.isdigit():
        return word
    for ending, least in (("ies", 4), ("ing", 5), ("ied", 4), ("ed", 4), ("er", 6), ("es", 5), ("s", 4)):
        if word.endswith(ending) and len(word) - len(ending) >= least - 2 and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    if len(word) > 4 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == "e" else word


def families_of(word: str, following: str = "") -> frozenset[str]:
    """The families that a folded word is of, alone or with the word after it. Several heads lead nothing."""
    families = _FAMILIES_OF.get(word, _NOBODY)
    if not families and len(word) > _SHORTEST_PLURAL and word[-1] == "s" and word != "heads":
        families = _FAMILIES_OF.get(word[:-1], _NOBODY)
    if word in FIRST_OF_TWO:
        families |= _FAMILIES_OF.get(f"{word}_{following}", _NOBODY)
    return families


def written_in(text: str) -> Mapping[str, str]:
    """The words of a text by their stems, as they are first written."""
    found: dict[str, str] = {}
    for word in _WRITTEN.findall(text):
        found.setdefault(stem(without_possessive(word.casefold())), without_possessive(word))
    return found
