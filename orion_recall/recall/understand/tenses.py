"""Whether a question asks about the present state of something, or about what it was before. English, mainly.

asks_about(words("Who is my dentist these days?"))      -> "now"
asks_about(words("Who was my dentist before?"))         -> "before"
without_use_to("How did my sister use to get to work?") -> "How did my sister get to work?"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from orion_recall.values import QuestionTime, Tense
from orion_recall.when.direction import is_past_form

# Who asks what is true, or was, asks in a sentence or two; a longer text tells, and asks for what belongs to it.
_MOST_WORDS = 30


def _phrases(text: str) -> re.Pattern[str]:
    listed = sorted((" ".join(one.split()) for one in text.split("|")), key=len, reverse=True)
    patterns = (re.escape(one).replace("_", r"\S+") for one in listed)
    return re.compile(r"(?<!\S)(?:" + "|".join(patterns) + r")(?!\S)")


_NOW: Final = _phrases(
    """
        now | nowadays | these days | currently | at present | at the moment | right now | today's | still
        | any more | anymore | any longer | as of now | by now | up to date | latest | newest | current
        | present | at this point | maintenant | actuellement | en ce moment | toujours | encore | jetzt
        | zurzeit | derzeit | aktuell | momentan | noch | ahora | actualmente | hoy en día | todavía
    """
)
_BEFORE: Final = _phrases(
    """
        used to | before | previous | previously | former | formerly | earlier | originally
        | original | at first | in the past | once | back then | no longer | has _ changed | have _ changed
        | had been | changed | history of | develop | developed | evolve | evolved | how has _ _ moved
        | over time | over the months | over the weeks | so far | first plan | until recently
        | what has changed | what's changed | what changed | moved from | replaced | how has | how have
        | how did _ _ change | how did _ _ develop | predecessor | successive | timeline | avant | autrefois
        | auparavant | ancien | ancienne | changé | évolué | früher | vorher | bisher | ehemalige | ehemaliger
        | geändert | verändert | antes | anterior | anteriormente | cambiado
    """
)
# "How did my sister use to travel?", and as people write it: "how did we used to". With "what" it may be a tool.
_USE_TO: Final = re.compile(
    r"(?<!\S)(did(?:n['’]t)? (?:(?!get |become )[^\s,;.?!]+ ){1,4}?)used? to (?=[^\W\d])", re.IGNORECASE
)
_WITH_WHAT: Final = re.compile(r"(?:what|which)\b", re.IGNORECASE)
# "Did she get used to the noise?", "what was it used to clean?": nothing of before.
_BE_USED: Final = re.compile(
    r"(?<!\S)(?:am|is|are|was|were|be|been|being|get|gets|got|gotten|getting|become|became)"
    r"(?: (?:it|you))? used to(?!\S)"
)
_ONCE_A: Final = re.compile(r"(?<!\S)once (?=(?:a|an|per|every|each)\b)")
# Whose old thing is asked for, or what the old one was: not "how old", nor "did we sell the old car".
_OLD: Final = re.compile(
    r"(?<!\S)(?:(?:my|our|your|his|her|its|their|\S+['’]s) old|(?:was|were|is|are|what's|who's) the old)(?!\S)"
)
_PAST: Final = _phrases(
    """
        was | were | did | had | wasn't | weren't | didn't | ago | yesterday | last | i've | i have been
        | said | told | happened | happen | talked | discussed | mentioned | asked | recap | summary
        | summarise | summarize | summarized | summarised | war | waren | hatte | hat | était | étaient
        | avait | fue | era | a dit
    """
)
_PRESENT: Final = _phrases(
    """
        is | are | am | do | does | can | must | should | has | have | isn't | aren't | don't | doesn't | will
        | 's | who's | what's | where's | when's | how's | which | my | our | est | sont | ai | a | ist | sind
        | habe | muss | es | está | son | travaille | arbeite | arbeitet | paie | fait | wohnt | wohne | heißt
        | vit | habite | trabaja | vive
    """
)

# "What do I do before I go": an order of steps, where nothing of the question is past.
_BEFORE_DOING: Final = re.compile(
    r"(?<!\S)before (?=(?:i|you|we|he|she|they|it|one|the|a|an|my|our|your"
    r"|breakfast|lunch|dinner|bed|work|school|meals)\b|\w{2,}ing\b)"
)

# "Who leads", "what belongs".
_THIRD_PERSON: Final = re.compile(r"(?:who|what|which \S+|whose \S+) \w{2,}[^s\W]s\b")
# As after "remind me": "what daily rate I get", "what size shoes Salma takes", "where Gaspard lives".
_CLAUSE: Final = re.compile(
    r"(?:(?:at|in|on|for|from|to|with) )?(?:what|which|who|whom|where|how|when)\b(?: \S+){0,4}? "
    r"(?:(?:i|we|you|they) (?P<verb>\w+)|\w{2,}[^s\W]s(?= (?:at|in|on|for|to|from|with|by|about)\b|$))"
)
# "Spare key who", "rent?": without a verb it is so now.
_MOST_OF_TERSE: Final = 4


def asks_about(said: Sequence[str], time: QuestionTime, *, now: float) -> Tense | None:
    """`now`, `before`, or None for a question about something that happened.

    `said` are the folded words of the question. A time that is over makes a question none about the present.
    """
    if len(said) > _MOST_WORDS:
        return None
    text = _ONCE_A.sub("", _BE_USED.sub("", " ".join(said)))
    if _USE_TO.search(text):
        return "before"
    if _BEFORE.search(text if _PAST.search(text) else _BEFORE_DOING.sub("", text)) or _OLD.search(text):
        return "before"
    if any(interval.end is not None and interval.end <= now for interval in time.intervals):
        return None
    if _NOW.search(text):
        return "now"
    if _PAST.search(text):
        return None
    if any(is_past_form(word) for word in said):
        return "now" if _PRESENT.search(text) else None
    is_now = _PRESENT.search(text) or _THIRD_PERSON.match(text) or _CLAUSE.match(text)
    return "now" if is_now or len(said) <= _MOST_OF_TERSE else None


def says_now(said: Sequence[str]) -> bool:
    """Whether the folded words of a question have one for the present: "nowadays", "still", "current"."""
    return len(said) <= _MOST_WORDS and _NOW.search(" ".join(said)) is not None


def without_use_to(text: str) -> str:
    """The question without the "use to" of "How did Ana use to", which says when, and stands in no memory of then.

    "What did Ana use to" keeps it: that may be a tool.
    """
    return text if _WITH_WHAT.match(text) else _USE_TO.sub(r"\1", text)
