"""Plain statements of one value: "my boss is Maria", "I work at Acme now", "the API limit is 200 requests".

Two statements of one subject that differ in their value alone tell a change, where the subject has one value at a
time: by what it is called (a boss, a password), or since the newer one says that it is so now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from orion_recall.memory.told_changes.role_lists import HONORIFICS, NATIONALITIES, OFFICES, PETS, RELATIVES
from orion_recall.memory.told_changes.terms import families_of, stem
from orion_recall.memory.told_changes.values import WEEKDAYS
from orion_recall.memory.told_changes.word_families import ONE_VALUED
from orion_recall.memory.told_changes.word_lists import ROLES
from orion_recall.text.normal import STOP_WORDS, is_question, without_possessive
from orion_recall.when.vocabulary import MONTHS

Kind = Literal["name", "number", "version", "code", "time", "state", "other"]

_WORD = re.compile(r"[€$£]?\w[\w'’.:,@%+/-]*")
_CLAUSE = re.compile(r"[,;(–—]|\s-\s|\b(?:but|because|so|which|who|since)\b")
_CLOCK = re.compile(r"\d{1,2}:\d\d")
# Who begins to work somewhere works there.
_BEGINS = re.compile(
    r"(?:\b| |['’])(?:(?:have|has|ve|s) )?(?:just )?(?:start(?:s|ed|ing)? working|beg(?:in|ins|an) working|"
    r"(?:got|start(?:s|ed)?) a (?:new )?job)(?= (?:at|for) )"
)
_LABEL = re.compile(r"^(?:\w+ ){0,2}\w+: ")
# "Gwil's number for the list: 51904", "New number, the old phone is gone: 52286"
_GIVEN = re.compile(
    r"^(?:(?P<owner>my|our|[^\W\d_]+['’]s) )?(?P<new>new )?(?P<what>(?:\w+ ){0,2}"
    r"(?:number|code|password|pin|address|e-?mail))\b[^:.!?]{0,40}: (?P<value>[^\s,;]*\d[^\s,;]*|\S+@\S+)",
    re.IGNORECASE,
)
_IS = frozenset("is are".split())
_REGULAR = "live work report run cost start open close meet take drive use ride earn weigh listen study"
_VERBS = {
    **dict.fromkeys(_IS, "is"),
    **{form: verb for verb in _REGULAR.split() for form in (verb, f"{verb}s")},
    "studies": "study",
    "has": "have",
    "have": "have",
}
# What many do or have at a time, or each time anew, is one thing only where it is said to be so now.
_OF_MANY = frozenset("drive use ride meet take study".split())
_AFTER = {
    "live": ("in",),
    "work": ("at", "for", "as"),
    "listen": ("on",),
    "report": ("to",),
    "meet": ("in", "at"),
    "study": ("at", "in"),
    "run": ("on",),
}
"""What must follow these verbs: a place, a firm, a person."""
# Such a thing has one value at a time, which may be any word.
_ATTRIBUTES = frozenset(
    map(
        stem,
        """
        favourite favorite preferred colour color status size theme language plan timezone name nickname surname
        birthday birthdate email phone username login nationality state branch endpoint url host port limit budget
        retention timeout quota threshold capacity rate salary wage income fee target minimum maximum hobby currency
        backend database provider model region version
        """.split(),
    )
)
_MEASURES = frozenset(
    map(stem, "limit budget retention timeout quota threshold capacity port minimum maximum salary".split())
)
# These have one value each, of whatever they are said.
_OWN_AMOUNTS = frozenset("weigh earn listen".split())
_STATES = frozenset(("diet", "partner"))
_OF_AMOUNTS = frozenset("is cost have".split()) | _OWN_AMOUNTS
_PLACES = frozenset("in at on under near behind beside above below inside for with by".split())
_PREPOSITIONS = _PLACES | {"to", "from", "until", "till", "of", "as"}
_NOW = frozenset("now nowadays".split())
_FROM = frozenset("from starting effective".split())
_DETERMINERS = frozenset("the a an our my".split())
_SELF = frozenset("i we".split())
_OTHERS = frozenset("he she it they you this that these those there here his her their your its who what".split())
_OPEN = frozenset(
    "not never no if when whenever unless maybe perhaps would could might should will used was were had did still "
    "also too another again only today tonight yesterday tomorrow and or about than".split()
)
_NUMBERS = frozenset("one two three four five six seven eight nine ten eleven twelve twenty thirty hundred".split())
# Of these somebody has several: a sister, a friend, a cat.
_SEVERAL = frozenset(map(stem, (*RELATIVES, *PETS, "friend", "colleague", "neighbour", "neighbor", "flatmate")))
_ROLES = frozenset(map(stem, ROLES | OFFICES))
_TIMES = frozenset((*WEEKDAYS, *MONTHS, "week", "month"))
_MOST_WORDS, _MOST_OF_SUBJECT, _MOST_OF_VALUE = 16, 6, 5


class Statement(NamedTuple):
    """What a sentence says a thing or a person is, by stems: "my boss is Maria" is (boss), "is", {maria}.

    `owner` is the speaker of what is his. `unit` are the words beside a number. `is_now`: it says that it is so
    from now on; `is_single`: its subject has one such value at a time, whatever the sentence says. `is_post`: the
    value is who has the post that the subject is.
    """

    owner: str
    subject: tuple[str, ...]
    says: str
    kind: Kind
    unit: tuple[str, ...]
    value: frozenset[str]
    is_now: bool
    is_single: bool
    is_post: bool


def statements_in(sentences: Iterable[str], speaker: str) -> tuple[Statement, ...]:
    """The statements of the sentences, as they are written. `speaker` is folded."""
    found = (_statement(one, speaker) for one in sentences if not is_question(one))
    return tuple(one for one in found if one is not None)


def is_restated(new: Statement, old: Statement) -> bool:
    """Whether the newer one tells another value of the very same, which has one at a time."""
    whose = new.owner.split()[:1] == old.owner.split()[:1]
    if not whose or (new.subject, new.says) != (old.subject, old.says):
        return False
    if not (new.is_now or (new.is_single and old.is_single)) or new.unit != old.unit:
        return False
    return new.kind == old.kind and new.value.isdisjoint(old.value)


def _statement(sentence: str, speaker: str) -> Statement | None:
    if (given := _GIVEN.match(sentence)) is not None:
        return _of_label(given, speaker)
    clause = _CLAUSE.split(_BEGINS.sub(" work now", _LABEL.sub("", sentence)), maxsplit=1)[0]
    said = [word.rstrip(".,:'’") for word in _WORD.findall(clause)]
    folded = [word.casefold().replace("’", "'") for word in said]
    if not 3 <= len(said) <= _MOST_WORDS or not _OPEN.isdisjoint(folded):
        return None
    is_now = not _NOW.isdisjoint(folded)
    kept = [place for place, word in enumerate(folded) if word not in _NOW]
    said, folded = [said[place] for place in kept], [folded[place] for place in kept]
    at = next((place for place, word in enumerate(folded) if place and word in _VERBS), 0)
    if not 0 < at <= _MOST_OF_SUBJECT:
        return None
    return _of_post(said, folded, at, speaker, is_now=is_now) or _of_thing(said, folded, at, speaker, is_now=is_now)


def _of_label(given: re.Match[str], speaker: str) -> Statement:
    """The statement of a number, a code or an address that is named and given after a colon."""
    owner, is_new = (given["owner"] or "").casefold(), given["new"] is not None
    if owner in ("my", "our") or (is_new and not owner):
        owner = speaker
    named, _ = _named(given["what"].casefold().split())
    value = frozenset((given["value"].casefold().rstrip("."),))
    return Statement(
        without_possessive(owner), named, "is", "code", (), value, is_new, is_single=True, is_post=False
    )


def _of_thing(
    said: Sequence[str], folded: Sequence[str], at: int, speaker: str, *, is_now: bool
) -> Statement | None:
    """The statement of what stands before the verb: "the office is in Hull", "I live in Porto"."""
    verb, subject = _VERBS[folded[at]], folded[:at]
    is_self = len(subject) == 1 and subject[0] in _SELF
    named, is_new = _named(subject)
    if not _OTHERS.isdisjoint(subject) or (not is_self and (not named or not _SELF.isdisjoint(subject))):
        return None
    end = next((place for place in range(at + 3, len(folded)) if _is_when(folded, place)), len(folded))
    is_from = end < len(folded) and folded[end] in _FROM
    start = at + 1 + (folded[at + 1 : at + 2] != [] and folded[at + 1] in _PREPOSITIONS)
    preposition = folded[at + 1] if start > at + 1 else ""
    if (is_self and verb == "is") or preposition not in _AFTER.get(verb, (preposition,)):
        return None
    told = _value(said[start:end], folded[start:end])
    if told is None:
        return None
    kind, unit, value = told
    how = "@" if preposition in _PLACES else preposition
    is_owned = is_self or subject[0] in ("my", "our")
    if kind == "name" and verb == "is" and not (is_owned or subject[0] == "the" or len(named) > 1):
        return None  # where somebody is
    if kind == "name" and verb == "is" and not how and named[-1] in _SEVERAL:
        return None  # one of his sisters
    if kind == "other" and how != "as" and (how or _ATTRIBUTES.isdisjoint(named)):
        return None
    return Statement(
        owner=speaker if is_owned else "",
        subject=named,
        says=f"{'is' if kind == 'time' and verb == 'start' else verb} {how}".rstrip(),
        kind=kind,
        unit=unit,
        value=value,
        is_now=is_now or is_new or is_from,
        is_single=_is_single(kind, verb, subject, unit, is_specific=is_owned or len(named) > 1),
        is_post=verb == "is" and kind == "name" and not how and _is_post(named),
    )


def _is_when(folded: Sequence[str], place: int) -> bool:
    """Whether a time begins there: "from May", "on Monday"."""
    return folded[place] in _FROM or (
        folded[place] in ("on", "in", "next")
        and folded[place + 1 : place + 2] != []
        and folded[place + 1] in _TIMES
    )


def _is_single(kind: Kind, verb: str, subject: Sequence[str], unit: Sequence[str], *, is_specific: bool) -> bool:
    """Whether what the subject names has one such value at a time, and is not any of its kind."""
    named, _ = _named(subject)
    if verb == "is" and is_specific and not _ATTRIBUTES.isdisjoint(named):
        return True
    match kind:
        case "name":
            return verb in ("live", "work", "report") or (
                is_specific and verb not in _OF_MANY and _has_one(subject)
            )
        case "version" | "state":
            return True
        case "other":
            return verb == "work"
        case "code":
            return is_specific
        case "number":
            known = is_specific or verb in _OWN_AMOUNTS or "old" in unit or not _MEASURES.isdisjoint(named)
            return known and verb in _OF_AMOUNTS
        case "time":
            return False


def _of_post(
    said: Sequence[str], folded: Sequence[str], at: int, speaker: str, *, is_now: bool
) -> Statement | None:
    """The statement of a post by whom has it: "Lara is the new CTO", as "the CTO is Lara"."""
    holder, post = folded[:at], folded[at + 1 :]
    is_named = all(map(_is_name, said[:at])) and _OTHERS.isdisjoint(holder)
    if folded[at] not in _IS or not is_named or post[:1] == [] or post[0] not in ("the", "our", "my"):
        return None
    named, is_new = _named(post)
    value = frozenset(word for word in holder if word not in HONORIFICS)
    if not value or len(named) > _MOST_OF_VALUE or not _is_post(named):
        return None
    owner = speaker if post[0] in ("my", "our") else ""
    return Statement(owner, named, "is", "name", (), value, is_now or is_new, is_single=True, is_post=True)


def _is_post(named: Iterable[str]) -> bool:
    return not _ROLES.isdisjoint(named)


def _named(words: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """The stems of a name of a thing, without determiners, and whether it is called new."""
    kept = [without_possessive(word) for word in words if word not in _DETERMINERS and word not in ("of", "for")]
    named = tuple(stem(word) for word in kept if word != "new" and word not in STOP_WORDS)
    return named, "new" in kept


def _value(said: Sequence[str], folded: Sequence[str]) -> tuple[Kind, tuple[str, ...], frozenset[str]] | None:
    """Its kind, the words beside a number, and the words of the value; None of what is no value of a few words."""
    told = [(one, word) for one, word in zip(said, folded, strict=True) if word not in _DETERMINERS]
    if not 0 < len(told) <= _MOST_OF_VALUE:
        return None
    if any(word in _TIMES or _CLOCK.match(word) for _, word in told):
        return "time", (), frozenset((" ".join(word for _, word in told),))
    numbers = frozenset(word for _, word in told if word[:1].isdigit() or word[:1] in "€$£" or word in _NUMBERS)
    rest = [(one, word) for one, word in told if word not in numbers]
    if numbers:
        unit, values = tuple(stem(word) for _, word in rest), frozenset(_as_number(one) for one in numbers)
        return ("version" if rest and all(_is_name(one) for one, _ in rest) else "number"), unit, values
    if all((_is_name(one) and word not in NATIONALITIES) or word in HONORIFICS for one, word in told):
        return "name", (), frozenset(word for _, word in told if word not in HONORIFICS)
    first = told[0][1]
    if len(told) == 1 and (any(map(str.isdigit, first)) or "@" in first or "://" in first):
        return "code", (), frozenset((first,))
    if families := families_of(first) & _STATES:
        return "state", tuple(sorted(families)), frozenset((first,))
    return "other", (), frozenset(stem(word) for _, word in told if word not in STOP_WORDS) or frozenset(("",))


def _as_number(word: str) -> str:
    return re.sub(r"(?<=\d)[.,](?=\d{3}\b)", "", word.lstrip("€$£"))


def _has_one(subject: Sequence[str]) -> bool:
    """Whether a thing so called usually has one of it at a time."""
    return _is_post(map(stem, subject)) or any(families_of(word) & ONE_VALUED for word in subject)


def _is_name(word: str) -> bool:
    return any(map(str.isupper, word))
