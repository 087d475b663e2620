"""A question in French, German or Spanish, read word by word in English.

Everything that understands a question, and the embedding model, knows English. "Où travaille ma sœur maintenant ?"
becomes "where works my sister now": no translation, but it says what is asked for, of which time, and in the words
that a memory in English has. What is no known word, as a name, stays. The lists are in `text/foreign`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from orion_recall.models.language import DEFAULT, Language, language_of, small_words
from orion_recall.text.normal import words

_READ: Final[tuple[Language, ...]] = ("french", "german", "spanish")
# An elided word, as "l'", is a word of its own, and so are parts with hyphens.
_WORD: Final = re.compile(r"[^\W_]+['’]?|[^\w\s-]")
_MOST: Final = 6  # words of a phrase
# Of fewer words in the list of a language a question is not sure to be in it.
_KNOWN_SHARE: Final = 0.6
_ELIDED: Final = frozenset(("qu'", "j'", "l'", "d'", "c'", "n'", "m'", "t'"))
_NAMES_ARE_WRITTEN_LARGE: Final[frozenset[Language]] = frozenset(("french", "spanish"))


def language_asked(text: str) -> Language:
    """The language of a question, of which a word or two may be all that tells it; English where nothing does."""
    said = words(text)
    found = language_of(said)
    folded = [_folded(word) for word in _WORD.findall(text) if word[0].isalnum()]
    heard: list[Language] = [language for language in _READ if not small_words(language).isdisjoint(said)]
    if not _ELIDED.isdisjoint(folded) and "french" not in heard:
        heard.append("french")
    is_english = found == DEFAULT and text.isascii() and not small_words(DEFAULT).isdisjoint(said)
    if not heard or is_english or len(folded) == 1:
        return found
    shares = {language: _share(_list_of(language), folded) for language in heard}
    best: Language = max(heard, key=lambda language: (shares[language], language == found))
    least = _KNOWN_SHARE if best == found or not text.isascii() else 1.0
    return best if shares[best] >= least else found


def _share(known: Mapping[str, str], folded: list[str]) -> float:
    return sum(word in known or word.isdigit() for word in folded) / max(1, len(folded))


def _folded(word: str) -> str:
    return word.casefold().replace("’", "'")


def in_english(text: str, language: Language, names: Collection[str]) -> str | None:
    """The text in English words, punctuation as it is; None of a language that is not read.

    `names` are folded words that are never read: those of people who speak here.
    """
    if language not in _READ:
        return None
    known = _list_of(language)
    found: list[str] = []
    said = _WORD.findall(text.replace("¿", " ").replace("¡", " "))
    folded = [_folded(word) for word in said]
    at = 0
    while at < len(said):
        count, english = _longest(known, folded, at)
        is_name = folded[at] in names or (
            language in _NAMES_ARE_WRITTEN_LARGE and at > 0 and said[at][0].isupper() and english.islower()
        )
        if count == 0 or (is_name and count == 1):
            count, english = 1, said[at]
        found.append(english)
        at += count
    return re.sub(r"\s+([,.;:!?])", r"\1", " ".join(" ".join(found).split()))


def _longest(known: Mapping[str, str], folded: list[str], at: int) -> tuple[int, str]:
    """How many words from there on are the longest known phrase, and its English; 0 for none."""
    for count in range(min(_MOST, len(folded) - at), 0, -1):
        phrase = " ".join(folded[at : at + count])
        english = known.get(phrase)
        if english is None:
            english = known.get(_plain(phrase))
        if english is not None:
            return count, english
    return 0, ""


@cache
def _list_of(language: Language) -> Mapping[str, str]:
    """The English of words and phrases, also of those that are written without their accents."""
    text = files("orion_recall.text").joinpath(f"foreign/{language}.txt").read_text("utf-8")
    known = dict(_entries(text))
    for phrase, english in list(known.items()):
        known.setdefault(_plain(phrase), english)
    return known


def _entries(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if line and not line.startswith("#"):
            phrases, _, english = line.partition("=")
            for phrase in phrases.split("|"):
                yield phrase.strip(), english.strip()


def _plain(text: str) -> str:
    """The text without accents; ß stays."""
    if text.isascii():
        return text
    return "".join(one for one in unicodedata.normalize("NFD", text) if not unicodedata.combining(one))
