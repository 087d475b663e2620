"""Clauses of a text that say a change: phrases of change where they mean one, without questions and causes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from orion_recall.memory.told_changes.endings import end_of, moves_a_time, shifts_nothing
from orion_recall.memory.told_changes.values import TIMED, WEEKDAYS, values_of
from orion_recall.memory.told_changes.what_ends import is_done_to_a_thing, is_for_a_while, is_no_end
from orion_recall.memory.told_changes.word_lists import (
    ADDITIONS,
    AMOUNTS_AFTER,
    CUES,
    ENDS_BEFORE,
    IDIOMS,
    LEAVES,
    Heard,
)
from orion_recall.text.normal import STOP_WORDS, words
from orion_recall.when.vocabulary import MONTHS, UNITS

Phrases = Mapping[str, tuple[tuple[Heard, tuple[str, ...]], ...]]
"""Phrases by their first word: what each says, and its further words; `_` is any, `#` one with a digit first."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+|; ")
# "Because of Genoa I've pushed your script back": Genoa is why, and not what.
_CAUSE = re.compile(
    r"\b(?:because of|due to|owing to|thanks to|on account of|wegen|à cause de|a causa de)\b.{0,60}?"
    r"(?=[,.;:!?]|\b(?:i|we|he|she|they|it)\b|$)"
)
# "Off island", "off work", "off sick": somebody is away, and nothing is called off.
_AWAY = re.compile(
    r"\b(?P<be>is|are|was|were|'s|'m|'re|be|been) off (?=[a-z])(?!(?:because|since|as|until|till|for|now|again|then"
    r"|today|tomorrow|tonight|this|that|next|so|and|but|or|to|on|in|at|by|due|after|before|if|when|unless|altogether"
    r"|completely|entirely|too|also|anyway|(?:i|we|he|she|they|it|you)(?:'\w+)?|my|our|his|her|their|your|the|an?"
    r"|there)\b)"
)
_LEFT = re.compile(
    r"\b(?:switch(?:ed|es|ing)|mov(?:ed|es|ing)|chang(?:ed|es|ing)|migrat(?:ed|es|ing)|gone over|went over) from "
    r"(?P<left>.{1,60}?)(?= to\b|[.,;:!?]|$)"
)
# "I have pottery on Mondays, ok?" states it all the same.
_TAG = re.compile(r"(?P<said>[^.!?\n]+),\s*(?:ok|okay|alright|all right|deal|got it)\s*\?", re.IGNORECASE)
_ASKING = frozenset(
    "can could will would shall should may do does did is are am was were have has had who whom whose what when "
    "where why how which if".split()
)
_CLAUSE_END = re.compile(r"[,;:.!?–—]+\s+|\s-\s|\b(?:so|but|and|because)\b")
_SAYS_CHANGE: frozenset[Heard] = frozenset(("change", "switch", "amount", "shift", "handover", "end", "present"))
_ENDS: frozenset[Heard] = frozenset(("end",))
_LEAVING: frozenset[Heard] = frozenset(("end", "leaves"))
# A sentence that begins so is about what the one before tells.
_OF_BEFORE = frozenset("it it's its this that that's these those they they're both all he he's she she's".split())
_OBJECTS = frozenset("the my our your his her their this these those all".split())
_HAPPENED: frozenset[Heard] = frozenset(("end", "shift", "amount"))
_BEGINNINGS = (*WEEKDAYS, *MONTHS, "today", "tomorrow")
# "From April the rent is 700", and not "from April to June" or "the invoice from April".
_SUBJECTS = "the my our your his her their i we you he she it they it's i'm we're you're he's she's there's".split()
CANCELS = frozenset("cancelled canceled called cancel".split())
"""First words of phrases that cancel something."""
_OF_PLACES = frozenset(("shut", "closed", "closes", "has shut", "shut down", "gone"))
_PERIODS = ("this year", "next week", "next month", "next year")
_OF_THINGS = "the my our your his her their it it's".split()
_SHUT, _WAS = frozenset(("shut", "closed")), frozenset(("was", "were"))
_NO_NEW = frozenset("no any without".split())
_NOT_YET = frozenset("never not when whenever if unless don't didn't won't doesn't isn't until till before".split())
_NEGATED = frozenset(("any more", "anymore", "any longer"))
# What was so long ago is no news: "years ago I changed my diet", "I know them since I moved from home".
_LONG_AGO = re.compile(
    r"years? ago\b|\bdecades? ago\b|\bback then\b|\bin those days\b|\bas a (?:child|kid|boy|girl|student)\b"
    r"|\bwhen (?:i|we) (?:was|were) (?:young|little|small|a)\b"
)
_SINCE = re.compile(r"\bsince (?:i|we|he|she|they) .*?(?=[,.;:!?\n]|$)")
_AFTER_CHANGE = re.compile(r"(?<=[ ]from now on),\s+|(?<=[ ]from here on),\s+|(?<=[ ]from then on),\s+")
_SINCE_EVENT = re.compile(
    r"\bsince (?:the|my|our|your|his|her|their) (?:\w+ ){1,3}?(?:\w+ed|went|came|began|got|left|fell|broke|died)\b"
)
_IMPERATIVES = frozenset("please use take call write send pay ask bring try".split())
_USED_TO = ["used", "to"]
_NO = frozenset("not no never nobody nothing none without cannot can't hardly".split())


def _read_phrases() -> Phrases:
    found: dict[str, list[tuple[Heard, tuple[str, ...]]]] = {}
    from_then_on = "|".join(f"from {one} on|from {one} onwards" for one in _BEGINNINGS)
    from_month = "|".join(f"from {month} {subject}" for month in MONTHS for subject in _SUBJECTS)
    from_date = "|".join(f"from # {month} {subject}" for month in MONTHS for subject in _OF_THINGS)
    from_period = "|".join(f"from {one}" for one in _PERIODS)  # at the beginning: "From next week lunch is at one"
    changes = f"{from_then_on}|{from_month}|{from_date}|{from_period}"
    since = "|".join(
        f"from {one}" for one in (*MONTHS, *_PERIODS)
    )  # at the end of a sentence: "14 an hour from June"
    others: list[tuple[Heard, str]] = [
        ("change", changes),
        ("present", since),
        ("adds", ADDITIONS),
        ("leaves", LEAVES),
    ]
    for kind, text in (*CUES.items(), *others):
        for phrase in text.split("|"):
            first, *rest = phrase.replace("-", " ").split()
            found.setdefault(first, []).append((kind, tuple(rest)))
    return {first: tuple(dict.fromkeys(phrases)) for first, phrases in found.items()}


_PHRASES = _read_phrases()
_FIRST_WORDS = frozenset(_PHRASES)
_IDIOMS: dict[str, list[tuple[str, ...]]] = {}
for _idiom in IDIOMS.split("|"):
    _IDIOMS.setdefault(_idiom.split()[0], []).append(tuple(_idiom.split()))


def sentences_of(text: str) -> list[str]:
    """The sentences of a text."""
    return [one for one in _SENTENCE_END.split(text) if one.strip()]


def without_tags(text: str) -> str:
    """The text with statements where it asks to agree with one: "I have pottery on Mondays." for "…, ok?"."""
    return _TAG.sub(
        lambda one: one[0] if _ASKING.intersection(words(one["said"].casefold())[:1]) else f"{one['said']}.", text
    )


def without_causes(folded: str) -> str:
    """The folded text without what is named as a cause alone."""
    return _CAUSE.sub(" ", folded)


def without_absences(folded: str) -> str:
    """The folded text, in which somebody who is off work, duty or island is away: that ends nothing."""
    return _AWAY.sub(r"\g<be> away ", folded)


def without_long_ago(sentences: Iterable[str]) -> list[str]:
    """The folded sentences, empty where they tell what happened years ago, as does one that goes on with it."""
    found: list[str] = []
    is_past = False
    for sentence in sentences:
        now = _SINCE.sub(" ", sentence)
        is_past = _LONG_AGO.search(now) is not None or (is_past and _begins_with_change(now))
        found.append("" if is_past else now)
    return found


def _begins_with_change(sentence: str) -> bool:
    """Whether it says a change at once, of nobody who is named: "Changed my diet, lost ten kilos"."""
    said = words(sentence)
    return any([*said[: len(phrase.split())]] == phrase.split() for phrase in phrases_in(said).values())


def up_to_change(sentences: Iterable[str]) -> list[str]:
    """The folded sentences, cut behind a phrase that ends the clause of what is new.

    "Paddles in beech from now on, spruce only for oars" changes nothing of the spruce. Of "I haven't swum since the
    clocks changed" the clocks are only a time.
    """
    parts = [part for one in sentences for part in _AFTER_CHANGE.sub("\n", one).split("\n")]
    return [_SINCE_EVENT.sub(" since ", part) for part in parts]


def left_in(folded: str) -> frozenset[str]:
    """The words of what is left in the folded text: gym in "I switched from the gym to climbing"."""
    left = [word for one in _LEFT.finditer(folded) for word in words(one["left"])]
    return frozenset(left) - STOP_WORDS


def heard_in(said: Sequence[str]) -> frozenset[Heard]:
    """What the phrases in the folded words say. "Never stop", "when we close" and "fired up" say no change."""
    return frozenset(phrases_in(said))


def phrases_in(said: Sequence[str]) -> dict[Heard, str]:
    """The phrases of change in the folded words, the first of each kind, as they are said."""
    if _FIRST_WORDS.isdisjoint(said):
        return {}
    found: dict[Heard, str] = {}
    idle: set[int] | None = None  # looked for once a phrase is found: hardly any text has one
    for place, word in enumerate(said):
        if word not in _FIRST_WORDS:
            continue
        following = said[place + 1] if place + 1 < len(said) else ""
        for kind, rest in _PHRASES[word]:
            if (kind in found and not _is_clearer(found[kind], word)) or (
                rest and rest[0] != following and rest[0] not in "_#"
            ):
                continue
            end = place + 1 + len(rest)
            if not _goes_on(said, place + 1, rest) or (kind == "shift" and shifts_nothing(said, place, end)):
                continue
            if word == "no" and rest == ("longer",) and place and said[place - 1] in UNITS:
                continue  # "three minutes, no longer"
            if word == "new" and place and said[place - 1] in _NO_NEW:
                continue  # "no new date yet"
            if word == "from" and kind == "present" and end < len(said):
                continue  # "from April to June"
            if (
                kind == "amount"
                and said[end - 1][:1].isdigit()
                and not MONTHS.keys().isdisjoint(said[end : end + 1])
            ):
                continue  # "it goes to 24 July"
            if kind == "amount" and rest == ("up",) and place and said[place - 1].isdigit():
                continue  # "all 304 went up" into the sky
            if word == "from" and kind == "change" and place and " ".join(rest) in _PERIODS:
                continue  # "the bill from this month"
            if kind == "change" and moves_a_time(said, place, end):
                continue  # a change of its time, and of nothing else
            if kind in _HAPPENED and not _NOT_YET.isdisjoint(said[max(0, place - 3) : place]):
                continue
            idle = _idle(said) if idle is None else idle
            if not idle.isdisjoint(range(place, end)) or (kind in _LEAVING and _stays(said, end)):
                continue
            if kind in _LEAVING and (is_no_end(said, place, end) or _is_then(said, place, end)):
                continue
            if kind in _LEAVING and is_for_a_while(said, said[place:end]):
                continue
            if " ".join((word, *rest)) not in _NEGATED or _is_over(said, place, end):
                found[kind] = " ".join(said[place:end])
    return found


def first_phrases(sentences: Iterable[Mapping[Heard, str]]) -> dict[Heard, str]:
    """Of each kind the first phrase that the sentences have, or the one that says better what is over."""
    found: dict[Heard, str] = {}
    for phrases in sentences:
        for kind, phrase in phrases.items():
            if kind not in found or _is_clearer(found[kind], phrase.split()[0]):
                found[kind] = phrase
    return found


def _is_clearer(found: str, word: str) -> bool:
    """Whether a phrase that begins so says better what is over: a road is shut, and so the trip is cancelled."""
    return word in CANCELS and found in _OF_PLACES


def shift_phrase(stated: Iterable[str]) -> str | None:
    """The phrase by which the folded sentences say another time, of the clause that tells the new one.

    Of "We can't move on the 3rd. New date is the 9th" it is "new date"; None without any.
    """
    best: tuple[int, str] | None = None
    for clause in (one for sentence in stated for one in _CLAUSE_END.split(sentence)):
        said = words(clause)
        if (phrase := phrases_in(said).get("shift")) is None:
            continue
        tells_time = not values_of(clause, said, frozenset()).keys().isdisjoint(TIMED)
        is_negated = any(word in _NO or word.endswith("n't") for word in said)
        fit = 2 * (tells_time and not is_negated) + phrase.startswith("new ")
        if best is None or fit > best[0]:
            best = (fit, phrase)
    return best[1] if best is not None else None


def _is_then(said: Sequence[str], place: int, end: int) -> bool:
    """Whether "shut" and "closed" tell of that day ("was shut"), or of what somebody shuts ("shut the lid")."""
    is_of_day = said[place] in _SHUT and place > 0 and said[place - 1] in _WAS
    return is_of_day or is_done_to_a_thing(said, place, end)


def _goes_on(said: Sequence[str], place: int, rest: Sequence[str]) -> bool:
    """Whether the words from there on are the rest of a phrase."""
    after = said[place : place + len(rest)]
    return len(after) == len(rest) and all(
        one in ("_", other) or (one == "#" and other[:1].isdigit()) for one, other in zip(rest, after, strict=True)
    )


def _stays(said: Sequence[str], after: int) -> bool:
    """Whether nobody leaves: "leaves 3,050" says what is left over, "gone up" what something costs."""
    last, following = said[after - 1], said[after] if after < len(said) else ""
    if last == "leaves":
        return following[:1].isdigit() or following in AMOUNTS_AFTER
    return last == "gone" and following in ("up", "down")


def _idle(said: Sequence[str]) -> set[int]:
    """The places of words in phrases that mean something else than their words."""
    return {
        place + further
        for place, word in enumerate(said)
        if word in _IDIOMS
        for phrase in _IDIOMS[word]
        if tuple(said[place : place + len(phrase)]) == phrase
        for further in range(len(phrase))
    }


def _is_over(said: Sequence[str], start: int, end: int) -> bool:
    """Whether "any more" says that something is over: "not here any more", and not "waste any more time"."""
    is_last = end >= len(said) or said[end] in STOP_WORDS
    return is_last and any(word in _NO or word.endswith("n't") for word in said[:start])


def changed_in(stated: Sequence[Sequence[str]], *, besides: Heard | None = None) -> set[str]:
    """The words of what the sentences, each as its folded words, say a change of.

    Of "the temperature is gone, she is an otter again" it is what stands before the phrase. The sentence before
    counts as well ("The hall is full. It is moved"), but where the phrase has an object of its own, as in "I moved
    the atlases". What phrases of the kind `besides` say does not count.
    """
    found: set[str] = set()
    for place, said in enumerate(stated):
        kinds = _SAYS_CHANGE - {besides}
        phrases = {kind: phrase.split() for kind, phrase in phrases_in(said).items() if kind in kinds}
        if not phrases:
            continue
        after = {kind: end_of(said, phrase) for kind, phrase in phrases.items()}
        near, goes_back = said, not any(said[end : end + 1] and said[end] in _OBJECTS for end in after.values())
        if said[0] in _IMPERATIVES:
            goes_back = False  # "Please use the stairs from now on" says itself of what
        if all(phrase == _USED_TO for phrase in phrases.values()):
            goes_back = said[0] in _OF_BEFORE  # "I used to" is followed by what is no longer so
        if phrases.keys() == _ENDS and " ".join(phrases["end"]) in ENDS_BEFORE:
            near = said[: after["end"] - len(phrases["end"])]
            goes_back = not near or near[0] in _OF_BEFORE
        found.update(near)
        if place and goes_back:
            found.update(stated[place - 1])
    return found
