"""Unambiguous times: relative times of which somebody who was not there can be told the date.

"Next Friday" said on a Monday is this week's to some and next week's to others; "closed on Sunday" may be of every
Sunday; "tomorrow" in what somebody else said is not the day after. Whoever reads a date takes it for a fact, so a
time has one meaning only where nothing near it speaks for another one.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, Literal

from orion_recall.when.direction import is_past_form
from orion_recall.when.vocabulary import MONTHS, SEASONS, TALK_VERBS, WEEKDAYS

Way = Literal["past", "ahead"]

_SMALL_HOURS: Final = 4
_SENTENCE_END: Final = re.compile(r"[.!?…\n]")
_CLAUSE: Final = re.compile(
    r"[,;:()\n–—]|\s-\s|\b(?:and|but|so|because|that|which|who|when|where|while|although|though|whereas|then|if|until)\b"
)
_LAST_END: Final = re.compile(r"[.!?…\n](?=[^.!?…\n]*\Z)")
_MARKS: Final = re.compile(r"[\"“‘«]")
_COUNTED_FROM: Final = re.compile(r"\b(?:ago|weeks?|fortnight)\s+\Z", re.IGNORECASE)
_OF_ANY_DAY: Final = re.compile(r"\b(?:always|never|every)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_QUOTED: Final = re.compile(r'"[^"]*"|“[^”]*”|‘[^’]*’(?!\w)|«[^»]*»')
# Before "week" or "Friday" they make a time of something else: "the last week of term", "every other Friday".
_DETERMINERS: Final = frozenset(
    """the a an my our your his her its their every each other first second third fourth last next no one some any
    this that both all""".split()
)
_PART_OF: Final = frozenset("of before after".split())
# What is so again and again is not on one day.
_HABIT: Final = frozenset(
    """always usually never often mostly normally generally sometimes rarely whenever every each weekly monthly
    regularly typically still now anymore longer instead only twice""".split()
)
# Plans of then, and what did not come: whether they are before or after is not told by the verb.
_UNSURE: Final = frozenset(
    """would could should might may supposed meant i'd we'd you'd he'd she'd they'd it'd wanted planned hoped
    thought promised used""".split()
)
_WILL: Final = frozenset(
    """will shall won't i'll we'll you'll he'll she'll they'll it'll who'll that'll there'll gonna must due
    need needs""".split()
)
_BE: Final = frozenset("am is are i'm we're you're he's she's it's they're that's there's isn't aren't".split())
_ONCE: Final = frozenset(
    """arrive arrives leave leaves start starts begin begins end ends expire expires return returns fly flies land
    lands marry marries""".split()
)
# After these a day is what was agreed on, or that on which it was.
_ARRANGING: Final = frozenset(
    """booked scheduled rescheduled postponed arranged rearranged reserved fixed delayed pushed shifted agreed
    confirmed invited enrolled appointed proposed suggested moved set changed put offered ordered decided
    registered signed announced extended applied accepted planned promised wanted""".split()
)
_PARTICIPLES: Final = frozenset("been done gone seen taken given written broken spoken eaten driven known".split())
_OTHER_TIMES: Final = (
    MONTHS.keys() | SEASONS.keys() | {"week", "weeks", "month", "months", "year", "years", "ago", "fortnight"}
) - {"may", "march", "mar", "sun", "sat", "mon"}
_DATE: Final = re.compile(
    r"\d(?:st|nd|rd|th)\b|(?:\d|\b(?:in|of|since|until|by|from|early|late|mid|last|next))[\s-]+(?:May|March)\b"
)
_LEADS_A_DAY: Final = frozenset(("on", "by", "until", "till", "since", "from"))


def has_one_meaning(text: str, start: int, end: int) -> bool:
    """Whether nothing around the time from `start` to `end` says that it is somebody else's, or a part of a name.

    Not in a quotation, nor behind "Nina wrote:"; not written like a title ("the film The Day After Tomorrow").
    """
    if _MARKS.search(text) is not None and _is_quoted(text, start, end):
        return False
    if not text[start:end].islower() and _is_titled(text, start, end):
        return False
    if (colon := text.rfind(":", 0, start)) < 0 or colon < (first := _sentence_start(text, start)):
        return True
    return TALK_VERBS.isdisjoint(_folded_words(text[first:start]))


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether it is inside of a quotation; a text that is one as a whole is said by its speaker."""
    return any(
        one.start() < start and end < one.end() and one.group() != text.strip() for one in _QUOTED.finditer(text)
    )


def is_of_one_day(text: str, start: int, end: int) -> bool:
    """Whether "yesterday" and the like are of one day in this text, and not of any, nor counted from."""
    if _COUNTED_FROM.search(text, 0, start) is not None:
        return False
    return _OF_ANY_DAY.search(text, _sentence_start(text, start), _sentence_end(text, end)) is None


def in_small_hours(clock: datetime) -> bool:
    """Whether it is so early that "tomorrow" may be the day that has begun."""
    return clock.hour < _SMALL_HOURS


def stands_free(text: str, start: int, end: int) -> bool:
    """Whether "last week" stands by itself: not "the last week", "last week of term", "last Friday in May"."""
    before, after = _beside(text, start, end)
    return before not in _DETERMINERS and after not in _PART_OF and not _leads_a_period(text, end)


def agreed_weekday(weekday: int, clock: datetime, word: str) -> bool:
    """Whether "last", "this" or "next" weekday is the same day to everybody, as it is said at that time.

    "Next Friday" is the coming one or that of next week, "last Monday" that of this week or of the one before.
    """
    today = clock.weekday()
    if word == "last":
        return weekday >= today
    if word == "next":
        return weekday <= today
    return weekday > today  # this


def weekday_way(text: str, start: int, end: int, weekday: int, clock: datetime) -> Way | None:
    """Whether a bare weekday is the last or the coming one; None where another reading is possible.

    It stands behind "on", "by" and the like, is not the day on which it is said, and is the only kind of time that
    the text tells; a verb of its clause says whether it is over.
    """
    lead, after = _beside(text, start, end)
    if lead not in _LEADS_A_DAY or after in ("week", "fortnight", "before", "after", "of", "in", "to", "or", "and"):
        return None
    if weekday == clock.weekday() or _tells_other_times(text):
        return None
    said = _clause(text, start, end)
    if lead == "since":
        return "past" if _HABIT.isdisjoint(said) else None
    if not _HABIT.isdisjoint(said) or not _UNSURE.isdisjoint(said) or lead == "from":
        return None
    way = _way(said)
    if way == "past" and not _ARRANGING.isdisjoint(said):
        return None
    return way


def is_ahead(text: str, start: int, end: int) -> bool:
    """Whether "in two weeks" is when something will be: not how long it took, or how often it happens."""
    said = _clause(text, start, end)
    return _HABIT.isdisjoint(said) and _UNSURE.isdisjoint(said) and _way(said) == "ahead"


def tells_weekday_after(text: str, end: int) -> bool:
    """Whether a weekday, or another day, is counted from: "two weeks ago on Friday", "a week ago today"."""
    return bool(re.match(r",?\s+(?:(?:on|this|last|next)\s+)?(?:\w+day\b|tomorrow\b)", text[end:], re.IGNORECASE))


def _way(said: list[str]) -> Way | None:
    """What the verbs of a clause say together; None where they say both, or nothing."""
    ahead = not _WILL.isdisjoint(said) or not _ONCE.isdisjoint(said) or said[:1] == ["see"]
    past = False
    for place, word in enumerate(said):
        before = said[max(0, place - 3) : place]
        following = said[place + 1] if place + 1 < len(said) else ""
        if word in _BE:
            later = said[place + 1 : place + 4]
            ahead |= any(one.endswith("ing") and len(one) > 4 for one in later) or following in _LEADS_A_DAY
        elif word in ("have", "has") and following in ("to", "the", "a", "an", "my"):
            ahead = True
        elif word in ("was", "were", "did", "had", "didn't", "wasn't", "weren't"):
            past = True
        elif place == 0 and word.endswith("ed"):
            continue  # "closed on Sunday"
        elif (
            is_past_form(word) and word not in _PARTICIPLES and _BE.isdisjoint(before) and _WILL.isdisjoint(before)
        ):
            past = True
    return None if ahead == past else "ahead" if ahead else "past"


def _clause(text: str, start: int, end: int) -> list[str]:
    """The folded words of the clause around a place."""
    first, last = _sentence_start(text, start), _sentence_end(text, end)
    folded = text.casefold() if len(text.casefold()) == len(text) else text
    for one in _CLAUSE.finditer(folded, first, last):
        if one.end() <= start and one.group() != "until":
            first = one.end()
        elif one.start() >= end:
            last = one.start()
            break
    return _folded_words(text[first:last])


def _tells_other_times(text: str) -> bool:
    """Whether the text tells times of other kinds: a day in a story is of that story's time."""
    return not _OTHER_TIMES.isdisjoint(_folded_words(text)) or _DATE.search(text) is not None


def _leads_a_period(text: str, end: int) -> bool:
    """Whether "in May", "in 2021" or the like follows."""
    match = re.match(r"\s+in\s+(?:the\s+)?(\w+)", text[end:])
    return match is not None and (match[1].casefold() in MONTHS or match[1].isdecimal())


def _beside(text: str, start: int, end: int) -> tuple[str, str]:
    """The folded words right before and right after; "" at the borders of a sentence."""
    before, after = re.search(r"([\w'’]+)\s+$", text[:start]), re.match(r"\s+([\w'’]+)", text[end:])
    return before[1].casefold() if before else "", after[1].casefold() if after else ""


def _is_titled(text: str, start: int, end: int) -> bool:
    """Whether it has capitals in the middle of a sentence, which only names of days have."""
    for word in _WORD.finditer(text, start, end):
        folded = word[0].casefold()
        if folded in WEEKDAYS or folded in MONTHS or not word[0][0].isupper():
            continue
        if word.start() > start or not _begins_sentence(text, start):
            return text.upper() != text and not word[0].isupper()
    return False


def _begins_sentence(text: str, start: int) -> bool:
    """Whether nothing of a sentence stands before; a colon or a quotation mark may begin one."""
    return re.search(r"(?:^|[.!?…:\n–—-])[\s\"'“‘(\[]*$", text[:start]) is not None


def _sentence_start(text: str, place: int) -> int:
    found = _LAST_END.search(text, 0, place)
    return 0 if found is None else found.end()


def _sentence_end(text: str, place: int) -> int:
    found = _SENTENCE_END.search(text, place)
    return len(text) if found is None else found.start()


def _folded_words(text: str) -> list[str]:
    return [one[0].casefold().replace("’", "'") for one in _WORD.finditer(text)]
