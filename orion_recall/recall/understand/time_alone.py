"""Questions that name a time, or a session, and nothing else to search for: "what happened yesterday?".

The words of an understood time are not searched for: "yesterday" is in no memory of yesterday, but in others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final

from orion_recall.text.normal import STOP_WORDS, without_possessive, words
from orion_recall.values import QuestionTime
from orion_recall.when.times import session_named
from orion_recall.when.reading import is_about_talk
from orion_recall.when.vocabulary import HOLIDAY_BEGINNINGS, MONTHS, TALK_VERBS

# What a question for a period says besides its time: verbs and nouns of talk, of happening and of summaries.
_OF_A_PERIOD: Final = TALK_VERBS | frozenset(
    """change changes changed changing different differently happen happens happened happening go goes going went
    gone come comes came coming do does did done doing
    occur occurred thing things stuff anything something everything nothing topic topics subject subjects event
    events session sessions conversation conversations chat chats talk talks message messages day days news new
    recap recaps recapitulate summary summaries summarise summarize summarising summarizing overview rundown digest
    highlight highlights review brief briefing briefly short quick catch bring update updates updated sum wrap
    remember recall recollect give show list get got make please main important notable interesting key most much
    missed miss me us okay ok hi hey hello thanks what's who's how's there's let's kind sort lot quickly
    record recorded note noted log logged share shared plus like activity activities people everybody everyone
    anybody anyone folks others working worked busy kept keep keeping spend spent spending mind up
    run runs running through walk fill back earlier till until again would""".split()
)
# What a question for what lies ahead says besides.
_OF_WHAT_IS_AHEAD: Final = frozenset(
    """plan plans planned appointment appointments schedule scheduled calendar agenda booked arranged coming comes
    upcoming ahead lined look looks looking expect expected due free busy still left diary diaries plate cards
    pipeline commitments reminders todo need needs needed must supposed meant forget time""".split()
)
# Where the days of the one who asks are spent: "what happened at work on Monday" asks for the day.
_WHERE_DAYS_ARE: Final = re.compile(
    r"\b(?:at|in|on|around)\s+(?:(?:the|our|my)\s+)?"
    r"(?:work|home|office|shop|store|ward|workshop|studio|yard|lab|farm|site|house|job)\b(?!\s*['’]?\s*\w)",
    re.IGNORECASE,
)
_ASKING: Final = frozenset("where who whom whose why which who's where's".split())
# "Who wrote to me today?" is answered by what was said that day; who called is told by somebody else.
_WRITING: Final = TALK_VERBS | frozenset(("text", "texted", "email", "emailed", "mailed"))
_HOW: Final = re.compile(r"\bhow\b(?!\s+(?:was|were|is|did|has|have|s)\b)(?!['’]s\b)", re.IGNORECASE)
_DATED: Final = re.compile(rf"\b(?:{'|'.join(MONTHS)}|(?:1[5-9]|20)\d\d)\b", re.IGNORECASE)
_BEFORE: Final = (
    r"(?:\b(?:on|in|at|during|over|throughout|for|from|of|since|until|till|by|around|within|back)\s+)?(?:the\s+)?"
)


def without_times(text: str, time: QuestionTime, *, with_dates: bool = False) -> str:
    """The text without the words of its times and of its session; names of holidays stay: people say them.

    `with_dates`: months and years stay as well. A memory is indexed with its date in words, so they find it, while
    "last week" finds what was said of other weeks.
    """
    named = [one.words for one in time.intervals if not (with_dates and _DATED.search(one.words))]
    if time.session is not None and (session := session_named(text)) is not None:
        named.append(session[1])
    rest = text
    for said in sorted(named, key=len, reverse=True):
        kept = _holiday(words(said))
        rest = re.sub(
            rf"(?<!\w){_BEFORE}{re.escape(said)}(?:['’]s\b)?", f" {kept} ", rest, count=1, flags=re.IGNORECASE
        )
    if rest == text:
        return text
    return re.sub(r"\s+([,.?!])", r"\1", " ".join(rest.split()))


def keyword_text_of(text: str, rest: str, time: QuestionTime) -> str:
    """What the keyword search gets: the text without its times; with them where they may be its subject.

    "What did Ana write about the concert on Monday": the concert may be on Monday, and not the writing.
    """
    is_a_subject = time.intervals and time.of == "both" and is_about_talk(words(text))
    return text if is_a_subject else rest


def _holiday(said: Sequence[str]) -> str:
    """The holiday that the words name; "" for none."""
    for place, word in enumerate(said):
        for name in HOLIDAY_BEGINNINGS.get(word, HOLIDAY_BEGINNINGS.get(without_possessive(word), ())):
            found = said[place : place + len(name)]
            if [without_possessive(one) for one in found] == [without_possessive(one) for one in name]:
                return " ".join(found)
    return ""


_HAPPENED_TO = re.compile(r"\bhappen(?:ed|s|ing)? to\b")


def is_alone(rest: str, time: QuestionTime, *, names: Set[str] = frozenset(), intent: str = "") -> bool:
    """Whether nothing is left to search for but the time; `rest` is the text `without_times`.

    `names` are folded words that name people who speak here: whose words or days are asked for is no subject. Not
    for questions that ask for a time, a person, a place or a reason, but for who wrote.
    """
    if time.asks_when or not (time.intervals or time.session is not None):
        return False
    rest = _WHERE_DAYS_ARE.sub(" ", rest)
    said = words(rest)
    if names and _HAPPENED_TO.search(rest.casefold()):  # to whom is a subject, and no voice
        return False
    asking = [word for word in said if word in _ASKING]
    if asking == ["who"] and time.of != "told":
        return all(word in STOP_WORDS or word in _WRITING or word == "who" for word in said)
    if asking or _HOW.search(rest):
        return False
    without = _OF_A_PERIOD | _OF_WHAT_IS_AHEAD if time.of == "told" else _OF_A_PERIOD
    return all(
        word in STOP_WORDS or word in without or without_possessive(word) in names
        for word in (*said, *words(intent))
    )
