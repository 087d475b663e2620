"""The snippet of a memory: the span of its text that has most of what the question asks for.

Whole sentences are taken where they fit; of a longer sentence, the window where the question's words stand closest.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence, Set
from functools import lru_cache
from typing import Final, NamedTuple

from orion_recall.models.tokenizer import TokenCounter
from orion_recall.text.normal import STEM_CHARS, UNSPACED, fold, is_unspaced

_AGAIN: Final = 0.1
"""What a kind of evidence is worth where it is found again, beside 1."""
_OF_ANSWER: Final = 1.0
"""What a time is worth that is asked for: as much as a rare word of the question."""
_READ_CHARS: Final = 20_000
_MOST_KEPT_CHARS: Final = 4_000

_SENTENCE: Final = re.compile(
    r"""\S[^.!?…。！？]*(?:[.!?…](?!["'”’)]*(?:\s|$))[^.!?…。！？]*)*(?:[.!?…。！？]+["'”’)」』]*)?"""
)
_ABBREVIATED: Final = re.compile(
    r"(?:\b(?i:mr|mrs|ms|dr|st|prof|no|nr|vs|etc|e\.g|i\.e|approx|dept|tel)|\b[A-Z])\.$"
)
_MONTH: Final = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
# A day and its month are one piece: cut between them, neither tells a date.
_TIME: Final = re.compile(
    rf"""\b(?=[abdefijlmnostuwy\d])(?:yesterday|today|tonight|tomorrow|ago|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur
      |sun)days?|weekends?|(?:{_MONTH})\.?\s(?:the\s)?\d{{1,2}}(?:st|nd|rd|th)?
      |\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{_MONTH})|(?:on|by|until|from)\sthe\s\d{{1,2}}(?:st|nd|rd|th)(?!\s(?:of\s)?(?:{_MONTH}))
      |january|february|march|april|june|july|august|september|october|november|december|spring
      |summer|autumn|winter|(?:last|next|this|in|every)\s(?:\w+\s)?(?:week|month|year|night|morning|days|weeks|months
      |years)|\d{{1,2}}[:h.]\d\d|\d{{1,2}}\s?(?:am|pm)|(?:19|20)\d\d)\b""",
    re.VERBOSE,
)


class Place(NamedTuple):
    """One piece of evidence in a text: from `start` up to `end`, what it is, and what it is worth."""

    start: int
    end: int
    what: str
    worth: float


class _Tally:
    """What the pieces of evidence in a span are worth together: of one kind, which are worth the same, the first
    counts most."""

    __slots__ = ("_counts", "value")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self.value = 0.0

    def add(self, place: Place) -> None:
        count = self._counts.get(place.what, 0)
        self._counts[place.what] = count + 1
        self.value += place.worth * (_AGAIN if count else 1.0)

    def remove(self, place: Place) -> None:
        count = self._counts[place.what] = self._counts[place.what] - 1
        self.value -= place.worth * (_AGAIN if count else 1.0)


def _worth(places: Sequence[Place], begin: int, end: int) -> float:
    tally = _Tally()
    for place in places:
        if place.start >= begin and place.end <= end:
            tally.add(place)
    return tally.value


def _times_in(text: str) -> Sequence[Place]:
    read = text[:_READ_CHARS]
    folded = read.lower()
    if len(folded) != len(read):
        folded = read  # places must stay places of the text
    return [Place(*match.span(), " time", _OF_ANSWER) for match in _TIME.finditer(folded)]


def _sentences(text: str) -> Sequence[tuple[int, int]]:
    """From where to where each sentence goes; a full stop inside a number or after a short form ends none.

    The first 20,000 characters are read."""
    found: list[tuple[int, int]] = []
    for match in _SENTENCE.finditer(text[:_READ_CHARS]):
        start, end = match.span()
        if found and _ABBREVIATED.search(text, max(0, found[-1][1] - 8), found[-1][1]):
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


# The same memories are cut in many bundles. A few MB as people write; 80 MB where every text is nothing but times.
_kept_sentences = lru_cache(maxsize=512)(_sentences)
_kept_times = lru_cache(maxsize=512)(_times_in)


# Tokens that the two ellipses of a window may take.
_ELLIPSES = 2
_FEWEST_CHARS = 8
# Sentences that take less than this share of the window are followed by the beginning of the next one.
_FULL = 0.85
# An answer stands more often after the question's words than before them.
_BEFORE = 0.25
_MOST_SENTENCES = 200
# A name in the question says whom it is about, the other words say what is wanted of them.
_OF_NAME = 0.6
_ENDING = re.compile(rf"(?:e?s|e?d|ing)?(?![^\W_{UNSPACED}])")
_WORD_END = re.compile(f"[ {UNSPACED}]")
# What is said without the word before it would say the opposite.
_NEGATION = re.compile(
    r"(?<![\w'’])(?:(?P<alone>no|nor|nobody|none)|not|never|neither|cannot|without|hardly|\w+n['’]t)(?=[ ,])",
    re.IGNORECASE,
)
# A negation denies no further than up to the end of its clause.
_CLAUSE_END = re.compile(
    r"""[.!?;:()—\n] | \b(?:but|because|so|while|although|though|until|unless)\b
    | (?:,|\band)\s(?=(?:i|we|you|he|she|it|they|there|the|this|that|my|our|his|her|their)(?![^\W_]))""",
    re.IGNORECASE | re.VERBOSE,
)
_NEGATION_CHARS = 36
_MOST_NEGATIONS = 2
# Words that only announce what follows: a cut right behind them tells nothing.
_ANNOUNCES = re.compile(
    r"""\s(?:is|are|was|were|be|am|on|at|in|by|of|to|for|from|with|the|an?|my|your|his|her|our|their
    |(?:mrs?|ms|dr|prof|st)\.)$""",
    re.IGNORECASE | re.VERBOSE,
)
_ANNOUNCES_CHARS = 7
_MOST_ANNOUNCING = 4


def snippet(
    text: str,
    wanted: Set[str],
    max_tokens: int,
    tokens: TokenCounter,
    asks_when: bool = False,
    used: int | None = None,
) -> tuple[str, int]:
    """The text when it fits, else its best span, marked with … where something was left out; and its tokens.

    `wanted` are stems, `asks_when`: a time is asked for; `used` the text's tokens if they are known. Tokens are
    counted as the text stands in a bundle: after a space, before a newline.
    """
    used = line_tokens(text, tokens) if used is None else used
    if used <= max_tokens:
        return text, used
    times_in = _kept_times if len(text) <= _MOST_KEPT_CHARS else _times_in
    places = sorted([*_places(text, wanted), *(times_in(text) if asks_when else ())])
    chars = len(text) * max(1, max_tokens - _ELLIPSES) // used
    while chars >= _FEWEST_CHARS:
        window = _span(text, places, chars)
        used = line_tokens(window, tokens)
        if used <= max_tokens:
            return window, used
        chars = min(chars * 9 // 10, chars * max_tokens // used)
    for left in range(max_tokens - _ELLIPSES, 0, -1):
        kept = tokens.trim(text, left)
        if (used := line_tokens(kept, tokens)) <= max_tokens:
            return kept, used
    return "", line_tokens("", tokens)


_BEYOND_CHARS = 800


def place_beyond(text: str, begins: int, best: tuple[int, int], wanted: Set[str]) -> tuple[int, int] | None:
    """From where to where, behind `begins`, the wanted stems stand, about a passage long; None where the span
    `best` has as much of them."""
    places = sorted(_places(text, wanted))
    if not (further := places[bisect_left(places, (begins,)) :]):
        return None
    window = _window(text, further, _BEYOND_CHARS)
    return window if _worth(places, *window) > _worth(places, *best) else None


def line_tokens(text: str, tokens: TokenCounter) -> int:
    """The tokens of what stands between a line's head and the next line: neither boundary is ever inside a
    token."""
    return tokens.count(f" {text}\n")


_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _places(text: str, wanted: Set[str]) -> list[Place]:
    """Where the wanted words begin and end, each stem worth less the more often it is there."""
    folded = fold(text)
    if len(folded) != len(text):  # ß and its like: places must stay places of the text
        folded = _BEYOND_ASCII.sub(lambda one: fold(one[0])[:1] or one[0], text).lower()
    found: list[Place] = []
    for stem in wanted:
        of_stem: list[tuple[int, int]] = []
        is_pair = is_unspaced(stem)
        start = folded.find(stem)
        while start >= 0:
            end = start + len(stem)
            begins = is_pair or start == 0 or not folded[start - 1].isalnum() or is_unspaced(folded[start - 1])
            # A stem shorter than the longest is a whole word, in one of its usual forms.
            if begins and (is_pair or len(stem) == STEM_CHARS or _ENDING.match(folded, end)):
                following = None if is_pair else _WORD_END.search(folded, end)
                of_stem.append((start, end if is_pair else following.start() if following else len(folded)))
            start = folded.find(stem, end)
        if of_stem:
            if is_name := all(text[start].isupper() for start, _ in of_stem):
                of_stem = [at for at in of_stem if not _is_listed(text, *at)] or of_stem
            value = len(of_stem) ** -0.5 * (_OF_NAME if is_name else 1.0)
            found += [Place(*at, stem, value) for at in of_stem]
    return found


def _is_listed(text: str, start: int, end: int) -> bool:
    """Whether it stands in a list: "Present: Ana, Bo, Cy." tells nothing about them, "Bo pays." does."""
    return text[start - 2 : start] in (", ", ": ") and text[end - 1] in ",;."


def _span(text: str, places: Sequence[Place], chars: int) -> str:
    """At most so many characters: whole sentences with the most evidence, or the window of one that is longer."""
    best = _whole_sentences(text, places, chars)
    begin, end = best or _window(text, places, chars)
    # Where whole sentences have all of the evidence, no window has more.
    if best and (places[0].start < begin or any(place.end > end for place in places)):
        window = _window(text, places, chars)
        if _worth(places, begin, end) < _worth(places, *window):
            best, (begin, end) = None, window
    if best and end - begin < _FULL * chars:
        end = _word_end(text, begin, chars)
    begin = _with_negation(text, begin)
    end = _without_announcing(text, begin, end, places) if end < len(text) else end
    shown = text[begin:end].strip()
    return ("… " if begin > 0 else "") + shown + (" …" if end < len(text) else "")


def _with_negation(text: str, begin: int) -> int:
    """Where the span begins with the negation of its first clause, if that stands a few words before it at most."""
    for _ in range(_MOST_NEGATIONS):
        if (earlier := _negation_before(text, begin)) == begin:
            break
        begin = earlier
    return begin


def _negation_before(text: str, begin: int) -> int:
    """Where the last negation before the span stands that denies how it begins; `begin` without one."""
    negations = list(_NEGATION.finditer(text, max(0, begin - _NEGATION_CHARS), begin))
    if not negations:
        return begin
    last = negations[-1]
    denied = last.end()
    if text[denied : denied + 1] == "," and not last["alone"]:
        denied = text.find(",", denied + 1, begin) + 1  # "never, in all my years, seen"
        if not denied:
            return begin
    over = _CLAUSE_END.search(text, denied)
    return begin if over is not None and over.start() < begin else last.start()


def _without_announcing(text: str, begin: int, end: int, places: Sequence[Place]) -> int:
    """Where the span ends without the last words that only announce what follows, as far as none is wanted."""
    kept = len(text[begin:end].rstrip()) + begin
    for _ in range(_MOST_ANNOUNCING):
        found = _ANNOUNCES.search(text, max(begin, kept - _ANNOUNCES_CHARS), kept)
        if (
            found is None
            or found.start() <= begin
            or any(found.start() < place.end and place.start < kept for place in places)
        ):
            break
        kept = end = found.start()
    return end


def _whole_sentences(text: str, places: Sequence[Place], chars: int) -> tuple[int, int] | None:
    """From where to where the sentences with the most evidence go; None where no sentence fits or has any."""
    if not places:
        return None
    spans = (_kept_sentences if len(text) <= _MOST_KEPT_CHARS else _sentences)(text)[:_MOST_SENTENCES]
    best, found = 0.0, None
    tally, inside, taken, last = _Tally(), 0, 0, 0
    for first, (begin, end) in enumerate(spans):
        while inside < taken and places[inside].start < begin:
            tally.remove(places[inside])
            inside += 1
        last = max(last, first)
        if end - begin > chars:
            taken = inside = max(taken, bisect_left(places, (end,)))
            tally = _Tally()
            continue
        while last + 1 < len(spans) and spans[last + 1][1] - begin <= chars:
            last += 1
        end = spans[last][1]
        while taken < len(places) and places[taken].start < end:
            tally.add(places[taken])
            taken += 1
        if tally.value > best + 1e-9:
            best, found = tally.value, (begin, end)
    return _with_neighbours(spans, found, chars) if found else None


def _with_neighbours(spans: Sequence[tuple[int, int]], found: tuple[int, int], chars: int) -> tuple[int, int]:
    begin, end = found
    for _, further in spans:
        if end < further <= begin + chars:
            end = further
    for earlier, _ in reversed(spans):
        if end - chars <= earlier < begin:
            begin = earlier
    return begin, end


def _word_end(text: str, begin: int, chars: int) -> int:
    end = begin + chars
    if end >= len(text):
        return len(text)
    space = text.rfind(" ", begin + 1, end + 1)
    return space if space > begin else end


def _window(text: str, places: Sequence[Place], chars: int) -> tuple[int, int]:
    """At most so many characters around the most wanted words, whole words where there are spaces."""
    first, last = _densest(places, chars)
    begin = max(0, min(first - int(_BEFORE * max(0, chars - (last - first))), len(text) - chars))
    if begin > 0 and text[begin - 1] != " ":
        space = text.find(" ", begin, first)
        begin = space + 1 if space >= 0 else begin
    end = begin + chars
    if end < len(text):
        space = text.rfind(" ", begin + 1, end + 1)
        end = space if space > first else end
    return begin, min(end, len(text))


def _densest(places: Sequence[Place], chars: int) -> tuple[int, int]:
    """From where to where the most evidence stands within so many characters: the first such place."""
    best, found, left, tally = 0.0, (0, 0), 0, _Tally()
    for place in places:
        tally.add(place)
        while place.end - places[left].start > chars and places[left] is not place:
            tally.remove(places[left])
            left += 1
        if tally.value > best + 1e-9:
            best, found = tally.value, (places[left].start, place.end)
    return found
