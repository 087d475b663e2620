"""Answers in texts: whether a text gives a new name, a number or a time. English only.

In a language where every noun has a capital letter, a capital says nothing about names.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from typing import Final

from orion_recall.text.normal import without_possessive

# Texts whose names, numbers and times are remembered, since the same memories are ranked again and again. A recall
# asks for texts of at most 2,000 characters: 8 MB at worst for each of the three.
_KEPT: Final = 4096
_NUMBERS: Final = frozenset(
    """0 1 2 3 4 5 6 7 8 9 one two three four five six seven eight nine ten eleven twelve dozen dozens hundred
    hundreds thousand thousands once twice couple few several many first second third""".split()
)
_ORDINALS: Final = frozenset(("first", "second", "third"))
_ORDINAL_WITH_FIGURES: Final = re.compile(r"\b\d+(?:st|nd|rd|th)\b")
# Looked up word by word: an expression of all of them takes four times as long.
_PIECES: Final = re.compile(r"[a-z]+|\d")
_CAPITAL: Final = re.compile(r"[A-Z][\w'’-]+")
_OPENS: Final = '"“‘(['
# Before these a sentence goes on, and so does one after a letter or digit.
_GOES_ON: Final = ",;:'’\")"
# Capital wherever they stand, and the names of nobody.
_NO_NAMES: Final = frozenset(
    """i'm i've i'll i'd i’m i’ve i’ll i’d ok okay yeah yes no oh wow hey hi hello thanks well so and but or it the
    you we that this my he she they there what how
    monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays saturdays
    sundays mon tue tues wed thu thur thurs fri sat sun
    january february march july september october november december feb aug sep sept oct nov dec""".split()
)
# Months that people are called by, too: they are months behind these, or beside a number.
_MONTHS_AND_NAMES: Final = frozenset(("april", "may", "june", "august"))
_BEFORE_MONTH: Final = re.compile(
    r"(?:\b(?:in|on|by|of|since|until|till|from|through|before|after|during|last|next|this|early|late|mid|every"
    r"|around)[ -]|\d(?:st|nd|rd|th)? )$",
    re.IGNORECASE,
)
_BESIDE: Final = 10
_AFTER_MONTH: Final = re.compile(r",? \d")

# Of folded text. The first letters are looked at first: a third of the time.
_TELLS: Final = re.compile(
    r"""\b(?=[adfijlmnopstuwy12])(?:yesterday|today|tonight|tomorrow|ago
      |(?:last|next|this|past)\s+(?:few\s+)?
        (?:night|week|month|year|weekend|morning|summer|winter|spring|fall|autumn|mon|tue|wed|thu|fri|sat|sun)
      |(?:mon|tues|wednes|thurs|fri|satur|sun)day
      |january|february|april|june|july|august|september|october|november|december
      |(?=ma(?:y|rch)\b)(?:
        \w+\s\d
        |(?:(?<=\b[io]n\s)|(?<=\d\s)|(?<=\d(?:st|nd|rd|th)\s)|(?<=\d(?:st|nd|rd|th)\sof\s)|(?<=\bmid[\s-])
          |(?<=\b(?:last|next|till|late)\s)|(?<=\b(?:since|until|early)\s))\w+\b(?!\s(?:be|have|not)\b)
        |(?:(?<=\b(?:of|by)\s)|(?<=\bfrom\s))march)
      |(?:1[5-9]|20)\d\d\b)""",
    re.VERBOSE,
)
# One of them is in every text that tells a time; to look for them costs a third of the expression above.
_HINTS: Final = (
    *("today", "tonight", "yesterday", "tomorrow", "ago", "day", "last", "next", "this", "past"),
    *(
        "january",
        "february",
        "april",
        "june",
        "july",
        "august",
        "ber",
        "may",
        "march",
        "20",
        "19",
        "18",
        "17",
        "16",
        "15",
    ),
)


def gives_name(text: str, known: Set[str]) -> bool:
    """Whether the text names somebody or something, inside a sentence, that is not among the known words."""
    return not _names_inside(text) <= known


@lru_cache(maxsize=_KEPT)
def _names_inside(text: str) -> frozenset[str]:
    """The words with a capital inside the sentences of a text, folded and bare, that may be names."""
    found: set[str] = set()
    for match in _CAPITAL.finditer(text):
        start = match.start()
        if start == 0:
            continue
        before = text[start - 1]
        inside = before in _OPENS
        if not inside and before == " " and start > 1:
            inside = text[start - 2].isalnum() or text[start - 2] in _GOES_ON
        if not inside or (word := without_possessive(match[0].casefold())) in _NO_NAMES:
            continue
        if word not in _MONTHS_AND_NAMES or not _is_month(text, match):
            found.add(word)
    return frozenset(found)


def _is_month(text: str, word: re.Match[str]) -> bool:
    """Whether the words beside the name of a month, or of somebody called so, say that it is the month."""
    start, end = word.span()
    return (
        _BEFORE_MONTH.search(text, max(0, start - _BESIDE), start) is not None
        or _AFTER_MONTH.match(text, end) is not None
    )


@lru_cache(maxsize=_KEPT)
def gives_number(text: str) -> bool:
    """Whether the text says how many, in figures or words; to ask it is not to say it."""
    folded = text.casefold().replace("how many", "how")
    if "one day" in folded:
        folded = folded.replace("one day", " ")  # some time
    if "once " in folded:
        folded = folded.replace("once more", " ").replace("once again", " ").replace("at once ", " ")
    return not _NUMBERS.isdisjoint(_PIECES.findall(folded))


def gives_ordinals_alone(text: str) -> bool:
    """Whether the text has numbers and all are ordinals, as in "his first octave" and "the 27th"."""
    folded, ordinals = _ORDINAL_WITH_FIGURES.subn(" ", text.casefold().replace("how many", "how"))
    found = _NUMBERS.intersection(_PIECES.findall(folded))
    return found <= _ORDINALS and bool(found or ordinals)


@lru_cache(maxsize=_KEPT)
def tells_time(text: str) -> bool:
    """Whether the text has words for a time: what answers a question for one mostly does."""
    folded = text.lower()
    for hint in _HINTS:  # a plain loop: any() with a generator takes twice as long
        if hint in folded:
            return _TELLS.search(folded) is not None
    return False
