"""The shape of a question: a recap of a period, a list of all of a kind, or one answer. English only.

The words of an understood time are not searched for: "yesterday" is in no memory of yesterday, but in others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from itertools import pairwise
from typing import Final

from orion_recall.text.normal import STOP_WORDS, without_possessive, words
from orion_recall.values import QuestionTime
from orion_recall.when.reading import is_about_talk
from orion_recall.when.times import session_named
from orion_recall.when.vocabulary import HOLIDAY_BEGINNINGS, MONTHS, PLAN_NOUNS, TALK_VERBS

_MOST_WORDS: Final = 40
"""Words that are read: a question has fewer, and what is longer is a text."""

# Plural without an s at its end.
_IRREGULAR: Final = "people|children|men|women|kids|folks|feet|teeth|mice|geese|media|data|criteria|staff"
# An s at its end, and no plural; or a plural of which one answer is meant.
_SINGULAR: Final = frozenset(
    """this is was has does its us bus gas yes plus bonus status virus campus focus menu process business address
    class glass boss access success progress pass dress press stress mess loss kiss illness fitness wellness news
    series species tennis basis analysis crisis physics mathematics maths politics economics always perhaps lens
    canvas atlas christmas texas paris towards besides less unless across steps instructions directions ingredients
    odds thanks means lens chess address days weeks months years hours minutes seconds
    metres meters kilometres kilometers miles litres liters gallons grams kilos inches degrees""".split()
)
_OWNERS: Final = "my|our|the|your|his|her|their|all|all my|all our|all the|all of my|all of our|all of the"
_GROUP: Final = (
    r"family|families|team|band|group|choir|crew|board|club|class|committee|household|department|circle|staff|squad"
    r"|company|project|flat|house|crowd|gang|chat|cast|guest list|list"
)
_HAVE: Final = r"(?:have|has|had|did|do|does|are|is|were|was|will|can|could|should|would|may|must|might|am|shall)"
_PERSON: Final = r"(?:i|we|you|they|he|she|people|everybody|everyone|[\w'’-]+)"

_LISTS: Final = re.compile(
    rf"""^(?:(?:please|so|and|ok|okay|now|can\ you|could\ you|would\ you)\ )*(?:
      (?:list|enumerate)\ .+
      |(?:give|show|tell|send|write|make|get|find)\ (?:me\ |us\ )?(?:a\ |the\ |an\ )?
        (?:full\ |complete\ |short\ )*list\b.*
      |(?:give|show|tell|name|find|get|recall)\ (?:me\ |us\ )?(?:about\ )?(?:all|every|each)\ .+
      |name\ (?:me\ )?(?:all|every|each|some|the)\ .+
      |(?:what|who)\ all\ .+
      |(?:what|which|who)\ (?:are|were)\ (?:all|all\ the|all\ of\ the|all\ my|all\ our)\ .+
      |who\ (?:all\ |else\ )?(?:belongs|belonged|belong)\ to\ .+
      |who\ (?:all\ |else\ )?(?:is|are|was|were)\ (?:all\ )?(?:in|on|part\ of|members\ of|a\ member\ of)
        \ (?:{_OWNERS})\ (?:\w+\ )?(?:{_GROUP})\b.*
      |what\ (?:else\ )?(?:have|has)\ (?!changed\b|happened\b|gone\b|been\b){_PERSON}
        \ (?:\w+ed|\w{{2,}}t|\w{{2,}}n|made|paid|said|read|had|sung|done|sold|told)\b.*
        \b(?:since|so\ far|up\ to\ now|until\ now|over\ the|in\ the\ last|in\ the\ past|this\ year|already|ever)\b.*
      |what\ (?:things|stuff|items|kinds?\ of\ things|else)\ .+
      |what\ (?:do|does)\ {_PERSON}\ (?:keep|own|collect|store|subscribe\ to|possess)\b.*
      |which\ (?:ones\ )?of\ (?:my|our|the|these|those|them|us|his|her|their)\b.*
    )$""",
    re.VERBOSE,
)
_ANYWHERE: Final = re.compile(
    r"\b(?:all (?:of )?(?:the|my|our|your|his|her|their|these|those)|all|each of|every one of)"
    r" ([\w'’-]+)(?: ([\w'’-]+))?"
)
_OF_A_KIND: Final = re.compile(
    rf"\b(?:which|what) (?:(?:[\w-]+) )??([\w-]+)"
    rf" (?:{_HAVE}|there|i|we|you|they|he|she|live|belong|come|work|own)\b"
)
_WHAT_ARE: Final = re.compile(
    rf"^(?:what|who|which) (?:are|were) (?:{_OWNERS})(?: [\w'’-]+)?? ([\w-]+)(?: (?!of\b).*| of .*)?$"
)
_HOW_MANY: Final = re.compile(r"\bhow many (?:[\w-]+ ){0,2}?([\w-]+)(?: |$)")
# One amount is meant: "How many tablets does the dog get?"
_AMOUNT: Final = re.compile(
    r"\bhow many .* (?:do|does) .* (?:get|take|need|eat|drink|smoke|use|pay|earn|charge|weigh|last|hold|fit)\b"
)
_PLURAL: Final = re.compile(rf"(?:{_IRREGULAR}|\w{{2,}}[^s\W\d]s)")
_SHORT_IS: Final = re.compile(r"\b(who|what|which)'s\b")
_WHOLE: Final = frozenset("time day night week way year month morning evening right things well over along".split())


_ALL: Final = frozenset("what's anything everything something else all list show".split())
# "What is on", not "what music is on".
_AFTER_WHAT: Final = STOP_WORDS | PLAN_NOUNS | {"else", "happens", "comes"}


def asks_for_list(words: Sequence[str]) -> bool:
    """Whether the question, in folded words, asks for all of a kind."""
    if not words or len(words) > _MOST_WORDS:
        return False
    said = _SHORT_IS.sub(r"\1 is", " ".join(words).replace("’", "'"))
    if _LISTS.match(said):
        return True
    if words[0] == "how" or " how many " in said:
        return _AMOUNT.search(said) is None and any(_is_plural(match[1]) for match in _HOW_MANY.finditer(said))
    if (match := _WHAT_ARE.match(said)) is not None:
        return _is_plural(match[1])
    if (match := _OF_A_KIND.search(said)) is not None and _is_plural(match[1]):
        return True
    return any(
        match[1] not in _WHOLE and any(_is_plural(word) for word in match.groups() if word)
        for match in _ANYWHERE.finditer(said)
    )


def _is_plural(word: str) -> bool:
    return word not in _SINGULAR and _PLURAL.fullmatch(word) is not None


def asks_what_is_ahead(words: Sequence[str], time: QuestionTime) -> bool:
    """Whether the question, in folded words, wants all of what is to come in the time that it names: "what do I
    have on tomorrow?", not "what music do we play in April?"."""
    if time.of != "told" or not time.intervals or not time.ahead or time.asks_when:
        return False
    whats = [after for word, after in pairwise(words) if word in ("what", "which")]
    return time.alone or not _ALL.isdisjoint(words) or not _AFTER_WHAT.isdisjoint(whats)


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
_ASKING_WORDS: Final = frozenset("where who whom whose why which who's where's".split())
# "Who wrote to me today?" is answered by what was said that day; who called is told by somebody else.
_WRITING: Final = TALK_VERBS | frozenset(("text", "texted", "email", "emailed", "mailed"))
_HOW: Final = re.compile(r"\bhow\b(?!\s+(?:was|were|is|did|has|have|s)\b)(?!['’]s\b)", re.IGNORECASE)
_DATED: Final = re.compile(rf"\b(?:{'|'.join(MONTHS)}|(?:1[5-9]|20)\d\d|q[1-4])\b", re.IGNORECASE)
_BEFORE: Final = (
    r"(?:\b(?:on|in|at|during|over|throughout|for|from|of|since|until|till|by|around|within|back)\s+)?(?:the\s+)?"
)


def without_times(text: str, time: QuestionTime, *, with_dates: bool = False) -> str:
    """The text without the words of its times and of its session; names of holidays stay: people say them.

    `with_dates`: months, quarters and years stay as well, since a memory is indexed with its date in words; but for
    those that bound a time ("before 8 May"), which an answer is not of.
    """
    named = [
        one.words for one in time.intervals if one.kind == "open" or not (with_dates and _DATED.search(one.words))
    ]
    if time.session is not None and (session := session_named(text)) is not None:
        named.append(session[1])
    rest = text
    for said in sorted(named, key=len, reverse=True):
        kept = _holiday(words(said))
        rest = re.sub(
            rf"(?<!\w){_BEFORE}{re.escape(said)}(?:['’]s\b)?", f" {kept} ", rest, count=1, flags=re.IGNORECASE
        )
    return text if rest == text else re.sub(r"\s+([,.?!])", r"\1", " ".join(rest.split()))


def keyword_text_of(text: str, rest: str, time: QuestionTime) -> str:
    """What the keyword search gets: the text without its times; with them where they may be its subject.

    "What did Ana write about the concert on Monday": the concert may be on Monday, and not the writing.
    """
    is_a_subject = time.intervals and time.of == "both" and is_about_talk(words(text))
    return text if is_a_subject else rest


def _holiday(said: Sequence[str]) -> str:
    for place, word in enumerate(said):
        for name in HOLIDAY_BEGINNINGS.get(word, HOLIDAY_BEGINNINGS.get(without_possessive(word), ())):
            found = said[place : place + len(name)]
            if [*map(without_possessive, found)] == [*map(without_possessive, name)]:
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
    asking = [word for word in said if word in _ASKING_WORDS]
    if asking == ["who"] and time.of != "told":
        return all(word in STOP_WORDS or word in _WRITING or word == "who" for word in said)
    if asking or _HOW.search(rest):
        return False
    without = _OF_A_PERIOD | _OF_WHAT_IS_AHEAD if time.of == "told" else _OF_A_PERIOD
    return all(
        word in STOP_WORDS or word in without or without_possessive(word) in names
        for word in (*said, *words(intent))
    )
