"""A text as tokens for the grammar of times, and the tense and direction that its words give a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import Final, NamedTuple

from orion_recall.time_values import TimeOf
from orion_recall.when.calendar import Span
from orion_recall.when.vocabulary import (
    EVENT_VERBS,
    FUTURE,
    LEADS,
    NO_VERBS,
    NUMBERS,
    OWED,
    PAST,
    PLAN_NOUNS,
    POSSESSIVES,
    TALK_VERBS,
    TRIGGERS,
    UNITS,
    VAGUE,
    WEEKDAY_LEADS,
)

# "What did we talk about yesterday": the time is that of the talk.
_ABOUT: Final = frozenset("talk talked talking chat chatted chatting speak spoke spoken speaking".split())
_SMALL: Final = frozenset(("the", "this", "that"))
_OPENING: Final = frozenset("and so but also ok okay then well please hey hi".split())
_BE: Final = "am is are i'm we're you're they're he's she's it's what's who's where's when's"
_THING: Final = "what|which|anything|something|nothing|there"
# What is on: not who is on, for that is on call, or on the team.
_IS_ON: Final = re.compile(
    rf"""(?<!\S)(?:(?:what's|anything|something)\ on|coming\ up|comes\ (?:up|next)|(?:what's|is)\ (?:next|happening)
        |what\ happens)(?!\S)
      | ^(?=.*(?<!\S)(?:{_THING})(?!\S)).*(?<!\S)(?:is|are)\ on(?!\S)""",
    re.VERBOSE,
)
# "Anything planned", "what have we booked"; "what do I have on", not "do we have notes"; "when is the concert",
# "does the train leave", "is the train late". Between an auxiliary and its verb are three words at most.
_PRESENT_OF_PLANS: Final = re.compile(
    rf"""(?<!\S)(?:
        (?:is|are|have|has|anything|nothing|something|what's|we've|i've|get)(?:\ \S+){{0,3}}
            \ (?:planned|scheduled|booked|arranged|lined)
      | (?:do|does)(?:\ \S+){{0,3}}\ have(?:\ (?:on|anything|something|time|to|in|at|for|this|next
            |tomorrow|tonight|today|a|an|planned|coming|scheduled|left|[,.?!])|$)
      | when's | when\ (?:{_BE.replace(" ", "|")}|do|does)
      | (?:do|does)\ \S+(?:\ \S+){{0,3}}\ (?:{"|".join(sorted(EVENT_VERBS))})
    )(?!\S)
      | ^(?:(?:\W+|and|so|but|also|ok|okay|then|well|please|hey|hi)\ )*(?:am|is|are)(?!\S)""",
    re.VERBOSE,
)
_HAS_GOT: Final = re.compile(r"(?<!\S)(?:have|has) \S+ got(?!\S)")
_IS_DOING: Final = re.compile(rf"(?<!\S)(?:{_BE.replace(' ', '|')})(?=((?: \S+){{1,5}}))")
_RECAP: Final = re.compile(
    r"""\b(?:recaps?|recapitulate|summar(?:y|ies|i[sz]e)|sum\s+up|overview|rundown|digest|highlights
       |catch\s+(?:me|us)\s+up|bring\s+(?:me|us)\s+up\s+to\s+(?:date|speed)|wrap[\s-]?up)\b""",
    re.VERBOSE | re.IGNORECASE,
)
# Whatever is still to come, where no time is named.
_COMING: Final = re.compile(
    r"""^\W*(?:(?:and|so|but)\ )?
        (?:what(?:['’]s|\ is|\ do\ (?:i|we)\ have)|(?:is\ there\ |do\ (?:i|we)\ have\ )?anything)\ (?:still\ )?
        (?P<coming>coming\ up|upcoming|ahead(?:\ of\ (?:me|us))?)(?:\ for\ (?:me|us))?(?:\ (?:soon|next))?\W*$""",
    re.VERBOSE | re.IGNORECASE,
)


def looks_ahead(words: Sequence[str], *, names: frozenset[str] = frozenset(), will_is_a_verb: bool) -> bool:
    """Whether the words ask for what is still to come; what comes again is then read as the next one.

    `words` are folded, in order, with signs. `will_is_a_verb`: one of them is the verb "will", not a name.
    """
    if will_is_a_verb or not FUTURE.isdisjoint(words):
        return True
    if not PAST.isdisjoint(words):
        return False
    is_owed = any(
        after in OWED.get(word, ()) or (word in ("due", "must") and after != "to")
        for word, after in pairwise((*words, ""))
    )
    said = " ".join(words)
    return (
        is_owed
        or asks_for_plans(words)
        or _PRESENT_OF_PLANS.search(said) is not None
        or (_HAS_GOT.search(said) is not None and "since" not in words)
        or any(
            word.endswith("ing") and len(word) > 4 and word not in NO_VERBS and word not in names
            for match in _IS_DOING.finditer(said)
            for word in match[1].split()
        )
    )


def asks_for_plans(words: Sequence[str]) -> bool:
    """Whether appointments and the like are asked for by name: "what is coming up", "which deadlines"."""
    return not PLAN_NOUNS.isdisjoint(words) or _IS_ON.search(" ".join(words)) is not None


def coming_in(text: str) -> str | None:
    """The words by which a question asks for all that is still to come, and for nothing else; None without any."""
    found = _COMING.match(" ".join(text.split()))
    return None if found is None else found["coming"]


def time_of(text: str, words: Sequence[str], times: Sequence[int], *, ahead: bool, all_ahead: bool) -> TimeOf:
    """What the intervals of a question are of: what was said then, what happens then as told, or both.

    `times` are the places of their first words. `ahead`: the question looks ahead; `all_ahead`: its intervals begin
    after now, when nothing was said yet.
    """
    if all_ahead:
        return "told"
    if asks_for_recap(text) or is_about_talk(words):
        return _of_talk(words, times)
    return "told" if ahead else "both"


def _of_talk(words: Sequence[str], times: Sequence[int]) -> TimeOf:
    """ "Say about yesterday" is of what is told of it; "say about the roof on Monday" may be of either."""
    subject = next((place for place, word in enumerate(words) if word == "about"), len(words))
    after = [place for place in times if place > subject]
    if not after or words[max(0, subject - 1)] in _ABOUT or words[subject + 1] in ("on", "in", "at", "during"):
        return "said"
    between = [word for word in words[subject + 1 : after[0]] if word not in _SMALL]
    return "both" if between else "told"


def asks_for_recap(text: str) -> bool:
    """Whether a recap or summary is asked for by name."""
    return _RECAP.search(text) is not None


def is_about_talk(words: Sequence[str]) -> bool:
    """Whether it asks what somebody said: "what did Ana say", "have we discussed"; not "tell me who came"."""
    for place, word in enumerate(words):
        if word not in TALK_VERBS:
            continue
        if words[place + 1 : place + 2] in (["me"], ["us"]) and _is_an_order(words, place):
            continue
        return True
    return False


def _is_an_order(words: Sequence[str], place: int) -> bool:
    """Whether the verb is an order to the one asked: "tell me", "can you remind us"."""
    before = [word for word in words[:place] if word.isalpha() and word not in _OPENING]
    return not before or before[-1] in ("you", "to") or before[-2:-1] in (["can"], ["could"])


_TOKEN = re.compile(
    r"""(?<![-./])\d{4}-\d{1,2}-\d{1,2}(?!\d)(?:[Tt]\d{1,2}:\d\d\S*)?
    | (?<![-./])\d{1,4}(?:[./-]\d{1,2}){2}(?!\d) | \d{1,2}(?:[./]\d{1,2}[./]|-\d{1,2}-)\d{2,4}
    | (?<![-./])\d{4}[-/]\d{2,4}(?![\d-]) | \d{1,2}/\d{4}
    | \d+(?:st|nd|rd|th|s)?(?![^\W\d_]) | [^\W\d_]+\d?(?:['’][^\W\d_]+)? | ['’]\d\d?s?(?!\d)
    | [-–,;.?!]""",
    re.VERBOSE,
)
# No question is longer; a text of thousands of words for times would hold up the others for a tenth of a second.
_WORDS_READ = 300
_DIGIT = re.compile(r"\d")


class Period(NamedTuple):
    """A period of local time that words name, and the position after them.

    `grain` is the unit it is told in. `year_told` is False where the year is the policy's choice, not the words'.
    """

    span: Span
    after: int
    grain: str
    kind: str
    year_told: bool = True


class Duration(NamedTuple):
    """A number of units, least and most, and the position after the words."""

    least: int
    most: int
    unit: str
    after: int


@dataclass(slots=True)
class Reading:
    """The input of the rules. `now` is the asker's local time; `names` are words that are people's names here."""

    text: str
    words: Sequence[str]
    places: Sequence[tuple[int, int]]
    now: datetime
    zone: tzinfo
    names: frozenset[str]
    future: bool
    south: bool
    day_first: bool

    def word(self, place: int) -> str:
        """The word there, folded; "" beyond either end."""
        return self.words[place] if 0 <= place < len(self.words) else ""

    def capital(self, place: int) -> bool:
        """Whether it is written with a capital."""
        return 0 <= place < len(self.places) and self.text[self.places[place][0]].isupper()

    def led(self, place: int) -> bool:
        """Whether the word before it makes a time of what could be something else."""
        before = self.word(place - 1)
        if before == "up":  # "sum up July"
            before = self.word(place - 2)
        return before in LEADS or (before in WEEKDAY_LEADS and self.word(0) == "how")

    def said(self, first: int, after: int) -> str:
        """The words as written."""
        return self.text[self.places[first][0] : self.places[after - 1][1]]

    def at(self, now: datetime, *, future: bool) -> Reading:
        """The same words, read at another time."""
        return replace(self, now=now, future=future)

    def minutes_ago(self, least: float, most: float) -> Span:
        """By the clock that does not jump: from `most` minutes ago to `least` minutes ago."""
        now = self.now.replace(tzinfo=self.zone).astimezone(UTC)
        start, end = (now - timedelta(minutes=minutes) for minutes in (most, least))
        return Span(
            start.astimezone(self.zone).replace(tzinfo=None), end.astimezone(self.zone).replace(tzinfo=None)
        )


def reading(
    text: str,
    now: datetime,
    *,
    names: frozenset[str] = frozenset(),
    south: bool = False,
    day_first: bool = False,
) -> Reading | None:
    """The text's words as the rules read them; None when nothing in it can be a time. `now` has a zone."""
    zone = now.tzinfo
    assert zone is not None, "the clock of a question has a zone"
    words: list[str] = []
    places: list[tuple[int, int]] = []
    for match in islice(_TOKEN.finditer(text), _WORDS_READ):
        word = match[0].casefold().replace("’", "'")
        bare = word.removesuffix("'s")
        # "last Tuesday's call", but "New Year's Eve"
        words.append(bare if bare in POSSESSIVES and words[-1:] != ["new"] else word)
        places.append(match.span())
    if TRIGGERS.isdisjoint(words) and _DIGIT.search(text) is None:
        return None
    return Reading(
        text,
        words,
        places,
        now.replace(tzinfo=None),
        zone,
        names,
        looks_ahead(words, names=names, will_is_a_verb=_has_will(text, words, places)),
        south,
        day_first,
    )


def asks_ahead(text: str, *, names: frozenset[str], asks_when: bool) -> bool:
    """Whether a question that names no time asks when something is to come, or for all that is to come."""
    found = [*islice(_TOKEN.finditer(text), _WORDS_READ)]
    words = [match[0].casefold().replace("’", "'") for match in found]
    if not asks_when and not asks_for_plans(words):
        return False
    places = [match.span() for match in found]
    return looks_ahead(words, names=names, will_is_a_verb=_has_will(text, words, places))


def _has_will(text: str, words: Sequence[str], places: Sequence[tuple[int, int]]) -> bool:
    """Whether it has the verb "will"; with a capital it is a name, unless the question begins with it."""
    return any(
        word == "will" and (place == 0 or not text[places[place][0]].isupper()) for place, word in enumerate(words)
    )


def number(reading: Reading, place: int) -> tuple[int, int, int] | None:
    """The least and the most that a number, or nearly a number, says, and the place after it."""
    word = reading.word(place)
    if word.isdecimal() and len(word) <= 4:
        return int(word), int(word), place + 1
    if word in ("a", "an") and reading.word(place + 1) in VAGUE:
        return number(reading, place + 1)
    if word in VAGUE:
        after = place + 2 if reading.word(place + 1) == "of" else place + 1
        return *VAGUE[word], after
    if word in NUMBERS:
        return NUMBERS[word], NUMBERS[word], place + 1
    return None


def duration(reading: Reading, place: int) -> Duration | None:
    """Words such as "3 weeks", "a couple of months", "half a year", "a year and a half"."""
    if reading.word(place) == "half" and reading.word(place + 1) in ("a", "an"):
        parts = {"year": ("month", 6), "decade": ("year", 5), "hour": ("minute", 30)}
        if (found := parts.get(reading.word(place + 2))) is not None:
            return Duration(found[1], found[1], found[0], place + 3)
        return None
    if (counted := number(reading, place)) is None:
        return None
    least, most, after = counted
    halves = reading.words[after : after + 3] == ["and", "a", "half"]
    after += 3 if halves else 0
    unit = UNITS.get(reading.word(after))
    if unit is None:
        return None
    after += 1
    if reading.words[after : after + 2] == ["or", "so"]:
        after += 2
    if not halves and reading.words[after : after + 3] == ["and", "a", "half"]:
        halves, after = True, after + 3
    if halves and unit == "year":
        return Duration(least * 12 + 6, most * 12 + 6, "month", after)
    return Duration(least, most, unit, after)
