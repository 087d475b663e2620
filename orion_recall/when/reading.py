"""A text as tokens for the grammar of times, and the tense and direction that its words give a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import Final, NamedTuple

from orion_recall.values import TimeKind, TimeOf
from orion_recall.when import vocabulary as vocab
from orion_recall.when.calendar import Span

_TOKEN = re.compile(
    # Words first, which most are: no other alternative begins with a letter.
    r"""[^\W\d_]+\d?(?:['’][^\W\d_]+)?
    | (?<![-./])\d{4}-\d{1,2}-\d{1,2}(?!\d)(?:[Tt]\d{1,2}:\d\d\S*)?
    | (?<![-./])\d{1,4}(?:[./-]\d{1,2}){2}(?!\d) | \d{1,2}(?:[./]\d{1,2}[./]|-\d{1,2}-)\d{2,4}
    | (?<![-./])\d{4}[-/]\d{2,4}(?![\d-]) | \d{1,2}/\d{4}
    | \d+(?:st|nd|rd|th|s)?(?![^\W\d_]) | ['’]\d\d?s?(?!\d)
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
    kind: TimeKind = "relative"
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
    south: bool
    day_first: bool
    future: bool = False

    @property
    def may_name_times(self) -> bool:
        return not vocab.TRIGGERS.isdisjoint(self.words) or _DIGIT.search(self.text) is not None

    def word(self, place: int) -> str:
        """The word there, folded; "" beyond either end."""
        return self.words[place] if 0 <= place < len(self.words) else ""

    def follow(self, place: int, *words: str) -> bool:
        """Whether just these words stand there."""
        return tuple(self.words[place : place + len(words)]) == words

    def skip(self, place: int, *words: str) -> int:
        """The first place from there on that has none of these words."""
        while self.word(place) in words:
            place += 1
        return place

    def capital(self, place: int) -> bool:
        """Whether it is written with a capital."""
        return 0 <= place < len(self.places) and self.text[self.places[place][0]].isupper()

    def led(self, place: int) -> bool:
        """Whether the word before it makes a time of what could be something else."""
        before = self.word(place - 2 if self.word(place - 1) == "up" else place - 1)  # "sum up July"
        return before in vocab.LEADS or (before in vocab.WEEKDAY_LEADS and self.word(0) == "how")

    def said(self, first: int, after: int) -> str:
        """The words as written."""
        return self.text[self.places[first][0] : self.places[after - 1][1]]

    def at(self, now: datetime, *, future: bool) -> Reading:
        """The same words, read at another time."""
        return self if now is self.now and future is self.future else replace(self, now=now, future=future)

    def instant(self, moment: datetime) -> float:
        """Epoch seconds of a time of the local clock; one that is skipped in spring is told by the clock before."""
        return moment.replace(tzinfo=self.zone).astimezone(UTC).timestamp()

    def minutes_ago(self, least: float, most: float) -> Span:
        """By the clock that does not jump: from `most` minutes ago to `least` minutes ago."""
        now = self.now.replace(tzinfo=self.zone).astimezone(UTC)
        moments = (now - timedelta(minutes=minutes) for minutes in (most, least))
        return Span(*(moment.astimezone(self.zone).replace(tzinfo=None) for moment in moments))


def reading(
    text: str, now: datetime, *, names: frozenset[str] = frozenset(), south: bool = False, day_first: bool = False
) -> Reading:
    """The text's words as the rules read them. `now` has a zone."""
    zone = now.tzinfo
    assert zone is not None, "the clock of a question has a zone"
    words: list[str] = []
    places: list[tuple[int, int]] = []
    for match in islice(_TOKEN.finditer(text), _WORDS_READ):
        word = match[0].casefold().replace("’", "'")
        bare = word.removesuffix("'s")
        # "last Tuesday's call", but "New Year's Eve"
        words.append(bare if bare in vocab.POSSESSIVES and words[-1:] != ["new"] else word)
        places.append(match.span())
    return Reading(text, words, places, now.replace(tzinfo=None), zone, names, south, day_first)


def number(read: Reading, place: int) -> tuple[int, int, int] | None:
    """The least and the most that a number, or nearly a number, says, and the place after it."""
    word = read.word(place)
    if word.isdecimal() and len(word) <= 4:
        return int(word), int(word), place + 1
    if word in ("a", "an") and read.word(place + 1) in vocab.VAGUE:
        return number(read, place + 1)
    if word in vocab.VAGUE:
        return *vocab.VAGUE[word], place + 2 if read.word(place + 1) == "of" else place + 1
    if word in vocab.NUMBERS:
        return vocab.NUMBERS[word], vocab.NUMBERS[word], place + 1
    return None


_HALVES = {"year": ("month", 6), "decade": ("year", 5), "hour": ("minute", 30)}


def duration(read: Reading, place: int) -> Duration | None:
    """Words such as "3 weeks", "a couple of months", "half a year", "a year and a half"."""
    if read.word(place) == "half" and read.word(place + 1) in ("a", "an"):
        unit, count = _HALVES.get(read.word(place + 2), ("", 0))
        return Duration(count, count, unit, place + 3) if unit else None
    if (counted := number(read, place)) is None:
        return None
    least, most, after = counted
    halves = read.follow(after, "and", "a", "half")
    after += 3 if halves else 0
    if (unit := vocab.UNITS.get(read.word(after))) is None:
        return None
    after += 3 if read.follow(after + 1, "or", "so") else 1
    if not halves and read.follow(after, "and", "a", "half"):
        halves, after = True, after + 3
    if halves and unit == "year":
        return Duration(least * 12 + 6, most * 12 + 6, "month", after)
    return Duration(least, most, unit, after)


# "What did we talk about yesterday": the time is that of the talk.
_ABOUT: Final = frozenset("talk talked talking chat chatted chatting speak spoke spoken speaking".split())
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
# One of them is in whatever `_IS_ON` finds.
_ENDS_OF_ON: Final = frozenset("on up next happening happens".split())
# "Anything planned", "what have we booked"; "what do I have on", not "do we have notes"; "when is the concert",
# "does the train leave", "is the train late". Between an auxiliary and its verb are three words at most.
_PRESENT_OF_PLANS: Final = re.compile(
    rf"""(?<!\S)(?:
        (?:is|are|have|has|anything|nothing|something|what's|we've|i've|get)(?:\ \S+){{0,3}}
            \ (?:planned|scheduled|booked|arranged|lined)
      | (?:do|does)(?:\ \S+){{0,3}}\ have(?:\ (?:on|anything|something|time|to|in|at|for|this|next
            |tomorrow|tonight|today|a|an|planned|coming|scheduled|left|[,.?!])|$)
      | when's | when\ (?:{_BE.replace(" ", "|")}|do|does)
      | (?:do|does)\ \S+(?:\ \S+){{0,3}}\ (?:{"|".join(sorted(vocab.EVENT_VERBS))})
      | (?:what|who|which(?:\ \S+){{1,2}})\ (?:{"|".join(sorted(vocab.EVENT_VERBS))})e?s
    )(?!\S)
      | ^(?:(?:[^\w\s]+|and|so|but|also|ok|okay|then|well|please|hey|hi)\ )*(?:am|is|are)(?!\S)""",
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


def looks_ahead(read: Reading) -> bool:
    """Whether the words ask for what is still to come; what comes again is then read as the next one."""
    words = read.words
    # With a capital "will" is a name, unless the question begins with it.
    is_will = any(word == "will" and not (place and read.capital(place)) for place, word in enumerate(words))
    if is_will or not vocab.FUTURE.isdisjoint(words):
        return True
    if not vocab.PAST.isdisjoint(words):
        return False
    said = " ".join(words)
    return (
        any(
            after in vocab.OWED.get(word, ()) or (word in ("due", "must") and after != "to")
            for word, after in pairwise((*words, ""))
        )
        or asks_for_plans(words)
        or _PRESENT_OF_PLANS.search(said) is not None
        or (_HAS_GOT.search(said) is not None and "since" not in words)
        or any(
            word.endswith("ing") and len(word) > 4 and word not in vocab.NO_VERBS and word not in read.names
            for match in _IS_DOING.finditer(said)
            for word in match[1].split()
        )
    )


def asks_for_plans(words: Sequence[str]) -> bool:
    """Whether appointments and the like are asked for by name: "what is coming up", "which deadlines"."""
    if not vocab.PLAN_NOUNS.isdisjoint(words):
        return True
    return not _ENDS_OF_ON.isdisjoint(words) and _IS_ON.search(" ".join(words)) is not None


def coming_in(text: str) -> str | None:
    """The words by which a question asks for all that is still to come, and for nothing else; None without any."""
    found = _COMING.match(" ".join(text.split()))
    return None if found is None else found["coming"]


def time_of(read: Reading, places: Sequence[int], *, all_ahead: bool) -> TimeOf:
    """What the intervals of a question are of: what was said then, what happens then as told, or both.

    `places` are those of their first words. `all_ahead`: they begin after now, when nothing was said yet. "Say
    about yesterday" is of what is told of it; "say about the roof on Monday" may be of either.
    """
    words = read.words
    if all_ahead:
        return "told"
    if _RECAP.search(read.text) is None and not is_about_talk(words):
        return "told" if read.future else "both"
    subject = next((place for place, word in enumerate(words) if word == "about"), len(words))
    after = [place for place in places if place > subject]
    if not after or words[max(0, subject - 1)] in _ABOUT or words[subject + 1] in ("on", "in", "at", "during"):
        return "said"
    return "told" if all(word in ("the", "this", "that") for word in words[subject + 1 : after[0]]) else "both"


def is_about_talk(words: Sequence[str]) -> bool:
    """Whether it asks what somebody said: "what did Ana say", "have we discussed"; not "tell me who came"."""
    for place, word in enumerate(words):
        if word not in vocab.TALK_VERBS:
            continue
        before = [word for word in words[:place] if word.isalpha() and word not in _OPENING]
        # An order to the one asked: "tell me", "can you remind us".
        is_order = not before or before[-1] in ("you", "to") or before[-2:-1] in (["can"], ["could"])
        if not is_order or words[place + 1 : place + 2] not in (["me"], ["us"]):
            return True
    return False
