"""Language detection by script and function words (`small_words.json`): no model, a few microseconds.

It tells apart languages that the keyword index can stem; where it is not sure, it is English, as is every text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from itertools import islice
from typing import Literal

from orion_recall.text.normal import STOP_WORDS

Language = Literal[
    "english", "german", "french", "spanish", "italian", "portuguese", "dutch", "danish", "norwegian", "swedish",
    "finnish", "romanian", "hungarian", "turkish", "russian", "greek", "arabic", "hebrew",
]  # fmt: skip

DEFAULT: Language = "english"

# Function words by language. Those that several languages share count a share for each.
_SMALL_WORDS: dict[Language, str] = json.loads(
    files("orion_recall.models").joinpath("small_words.json").read_text("utf-8")
)
_SCRIPTS: tuple[tuple[re.Pattern[str], Language], ...] = (
    (re.compile("[\u0400-\u04ff]{2}"), "russian"),
    (re.compile("[\u0370-\u03ff]{2}"), "greek"),
    (re.compile("[\u0600-\u06ff]{2}"), "arabic"),
    (re.compile("[\u0590-\u05ff]{2}"), "hebrew"),
)
_MOST_WORDS = 120
_LEAST_HITS = 2


_LISTS: dict[Language, frozenset[str]] = {
    language: frozenset(words.casefold().split()) for language, words in _SMALL_WORDS.items()
}
_LISTS[DEFAULT] |= STOP_WORDS
_LANGUAGES_OF: dict[str, tuple[Language, ...]] = {
    word: tuple(language for language, words in _LISTS.items() if word in words)
    for word in frozenset[str]().union(*_LISTS.values())
}


def language_of(words: Sequence[str]) -> Language:
    """The language of these folded words, judged by the first 120; English unless two words or more speak for
    another, and more of them than for English.
    """
    hits: dict[Language, int] = {}
    sure: dict[Language, float] = {}
    for word in islice(words, _MOST_WORDS):
        spoken = _LANGUAGES_OF.get(word) or (() if word.isascii() else _by_script(word))
        for language in spoken:
            hits[language] = hits.get(language, 0) + 1
            sure[language] = sure.get(language, 0.0) + 1.0 / len(spoken)
    if not hits:
        return DEFAULT
    best = max(hits, key=lambda language: (sure[language], hits[language]))
    sure_enough = hits[best] >= _LEAST_HITS and hits[best] > hits.get(DEFAULT, 0)
    return best if sure_enough else DEFAULT


def small_words(language: Language) -> frozenset[str]:
    """The function words of a language; none for one that is detected by its script."""
    return _LISTS.get(language, frozenset())


def _by_script(word: str) -> tuple[Language, ...]:
    return tuple(language for pattern, language in _SCRIPTS if pattern.search(word))
