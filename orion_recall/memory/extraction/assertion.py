"""Assertion: which part of a sentence says what is so, rather than asks, supposes or passes on."""

from __future__ import annotations

from orion_recall.memory.extraction.units import Sentence

_HYPOTHETICAL = frozenset("if whether unless".split())
# A sentence that begins with one of these asks, with or without its mark.
_ASKING_STARTS = frozenset(
    "is are was were do does did who whom whose what which where when why how has should shall can".split()
)
# In a sentence with one of these, somebody only says, thinks or dreams it.
_HEARSAY = frozenset(
    """apparently allegedly supposedly reportedly maybe perhaps probably possibly presumably rumour rumours rumor
    rumors rumoured imagine suppose pretend pretends dreamt dreamed dream neither nobody""".split()
)
_HEARSAY_PHRASES = """i wish|i heard|i hear|they say|people say|word is|word has it|i think|i guess|i bet|i believe
|i suppose|i doubt|i hope|i'd|thinks|think that|claims|claim|reckons|believes|guesses|hopes|says that|said that
|says he|says she|said he|said she|told me|tells me|told us|let's say|let's pretend|in the film|in the novel
|in the book|in the movie|in the story|in the series|in the play|in the show"""


def _by_first_word(phrases: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    table: dict[str, tuple[tuple[str, ...], ...]] = {}
    for phrase in phrases.replace("\n", "").split("|"):
        parts = tuple(phrase.split())
        table[parts[0]] = (*table.get(parts[0], ()), parts)
    return table


# What follows one of these phrases is no statement of the speaker's.
_HEARSAY_BEFORE = _by_first_word(_HEARSAY_PHRASES)


def end_of_assertion(sentence: Sentence) -> int:
    """Up to which unit the sentence says what is so; 0 for questions and conditions."""
    units = sentence.units
    if sentence.question or not units or (units[0].kind == "word" and units[0].folded in _ASKING_STARTS):
        return 0
    for at, unit in enumerate(units):
        if unit.folded in _HEARSAY:
            return 0
        if unit.folded in _HYPOTHETICAL:
            # "She runs it; if you need her, call" and "..., if you need her".
            return at if at and units[at - 1].kind == "mark" else 0
        for words in _HEARSAY_BEFORE.get(unit.folded, ()):
            if all(at + step < len(units) and units[at + step].folded == word for step, word in enumerate(words)):
                return at
    return len(units)
