"""Statements of a sentence: subject, relation, object, in the plain forms of about twenty relations.

A relation of people is a noun ("my sister Lea", "Tom's boss is Greta", "Lea is the boss of Tom"), any other a verb
between two names. Only main clauses state something: a subject stands where a clause begins, and between it and its
verb nothing but an auxiliary. So what is denied, asked, planned, supposed or only reported gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from orion_recall.graph.relation_words import role_name
from orion_recall.memory.extraction.sentences import ARTICLES, CALENDAR, UNSURE, Sentence, Unit
from orion_recall.text.names import KIN
from orion_recall.values import Statement

# Stands for a person whom the turn before may name. No name can be so.
UNKNOWN = "?"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ROLES = KIN | _words(
    """friend colleague coworker co-worker workmate teammate neighbour neighbor roommate flatmate landlord landlady
    tenant boss manager supervisor assistant mentor mentee teacher tutor student coach trainer doctor dentist
    therapist vet patient lawyer accountant hairdresser gardener babysitter editor agent client customer head
    director owner founder leader partner girlfriend boyfriend fiancé fiancée godmother godfather stepsister
    stepbrother grandson granddaughter dog cat"""
)
_PLURALS = {"children": "child", "wives": "wife"}
# A former boss is none.
_NO_MORE = _words("ex former future late previous next fake would-be")

# The verb phrases of each relation: third person, bare form, past, and what stands behind "is".
_PRESENT, _BARE, _PAST, _BE = range(4)
_VERBS = """
works at      | works at, works for | work at, work for | | working at, working for, employed by, employed at
worked at     | | | worked at, worked for |
works with    | works with | work with | | working with
studies at    | studies at | study at | | studying at
joined        | | | joined |
lives in      | lives in, lives at | live in, live at | | living in
moved to      | | | moved to, moved into, moved back to, relocated to |
is from       | comes from | come from | | from, originally from
born in       | | | | born in
grew up in    | | | grew up in |
based in      | | | | based in, headquartered in
located in    | | | | located in
owns          | owns | own | |
owned by      | | | | owned by
belongs to    | belongs to | | |
founded       | | | founded, co-founded |
founded by    | | | | founded by
manages       | manages | manage | | managing
managed by    | | | | managed by
leads         | leads, heads | lead, head | | leading, heading
led by        | | | | led by, headed by
reports to    | reports to | report to | | reporting to
married to    | | | married, got married to | married to, married
engaged to    | | | got engaged to | engaged to
part of       | | | | part of, a part of, a member of
known as      | | | | known as
met           | | | met |
knows         | knows | know | |
"""
# Behind "was" only these hold on.
_STILL = ("born in", "founded by")

_FILLERS = _words("just now currently still also already recently both all always really actually since")
_HAVE = ("have", "has")
_BE_PRESENT = ("am", "is", "are")
_CONTRACTED = {
    "i'm": ("i", "am"), "i've": ("i", "have"), "we're": ("we", "are"), "we've": ("we", "have"),
    "he's": ("he", "is"), "she's": ("she", "is"), "who's": ("who", "is"),
}  # fmt: skip
_FIRST_PERSON = ("i", "we", "me", "us")
_ASKING = _words(
    """is are was were do does did who whom whose what which where when why how has should shall can could would
    will"""
)
# What stands behind one of these in a sentence is only said or thought.
_REPORTED = _words(
    """that say says said saying tell tells told think thinks thought believe believes believed claim claims claimed
    guess guesses guessed hope hopes hoped doubt doubts doubted hear hears heard dream dreams dreamt dreamed
    assume assumes assumed suspect suspects suspected ask asks asked wonder wonders wondered"""
)
_NEGATIONS = _words("not no never neither nor nobody longer anymore hardly")
_JOINING = _words("and but so because while")
_AFTER_CLAUSE = _JOINING | {"who"}
# What may stand behind a role that is the end of a statement: "is my boss at Kestrel".
_AFTER_ROLE = _AFTER_CLAUSE | _words("at in from since now too for")
# "Last year Elena moved", "In 2019 we moved": words that may stand before the subject without a comma.
_BEFORE_SUBJECT = CALENDAR | _words(
    """in on since last this year month week weekend spring summer autumn winter night morning today yesterday now
    then well also actually"""
)
_DASHES = ("–", "—", "(", ",")
_NAMED = ("called", "named")
# How far is looked ahead: for adjectives, names in a list, and from an article to "called". And back: for whom a
# pronoun means, and for the start of a clause.
_MAX_ADJECTIVES, _MAX_MEMBERS, _MAX_NAMING, _MAX_BACK, _MAX_BEFORE = 2, 4, 5, 40, 4


def _by_first_word() -> dict[str, list[tuple[tuple[str, ...], str, int]]]:
    table: dict[str, list[tuple[tuple[str, ...], str, int]]] = {}
    for line in _VERBS.strip().splitlines():
        relation, *forms = (part.strip() for part in line.split("|"))
        for form, phrases in enumerate(forms):
            for words in (tuple(phrase.split()) for phrase in phrases.split(",") if phrase.strip()):
                table.setdefault(words[0], []).append((words, relation, form))
    for phrases in table.values():
        phrases.sort(key=lambda entry: -len(entry[0]))
    return table


_PHRASES = _by_first_word()


@dataclass(slots=True)
class Antecedent:
    """Who "she" and "he" are: the one person whom the sentence named before, or else the sentence before."""

    speaker: str | None = None
    name: str | None = UNKNOWN

    def within(self, units: Sequence[Unit]) -> str | None:
        named = {unit.folded: unit.text for at, unit in enumerate(units) if _may_be_person(units, at)}
        named.pop((self.speaker or "").casefold(), None)
        return self.name if not named else next(iter(named.values())) if len(named) == 1 else None

    def read(self, sentence: Sentence) -> None:
        self.name = self.within(sentence.units)


def _may_be_person(units: Sequence[Unit], at: int) -> bool:
    if units[at].kind != "name" or units[at].quoted:
        return False
    before = [unit.folded for unit in units[max(0, at - 2) : at]]
    if before[-1:] == ["to"]:
        return before[0] not in ("moved", "back", "went", "relocated")
    return not before or before[-1] not in ("in", "at", "from", "near", "into", "for", "the", "by", "joined")


def find_statements(sentence: Sentence, speaker: str | None, antecedent: Antecedent) -> Iterator[Statement]:
    """The statements of one sentence in reading order; may repeat itself. Who is unknown is UNKNOWN in them."""
    units = tuple(
        part
        for unit in sentence.units
        for part in [Unit("word", word, word) for word in _CONTRACTED.get(unit.folded, ())] or [unit]
    )
    asks = sentence.question or (units and units[0].kind == "word" and units[0].folded in _ASKING)
    if not asks and UNSURE.isdisjoint(unit.folded for unit in units):
        yield from _Reader(units, speaker, antecedent).statements()


@dataclass(slots=True)
class _Phrase:
    """Names that are read as one subject or object, where it ends, and what it states itself ("my sister Lea")."""

    names: list[str]
    end: int
    states: list[Statement] = field(default_factory=list[Statement])
    is_plural: bool = False


class _Role(NamedTuple):
    """Whose what: `sister` of these owners; where it ends."""

    role: str
    owners: list[str]
    end: int
    is_plural: bool = False

    def states(self, names: Sequence[str]) -> list[Statement]:
        return _stated(names, f"{self.role} of", self.owners)


_Stated = tuple[list[Statement], int]


class _Reader:
    """Reads one sentence from left to right; every step looks a bounded way ahead."""

    def __init__(self, units: tuple[Unit, ...], speaker: str | None, antecedent: Antecedent) -> None:
        self._units, self._speaker, self._antecedent = units, speaker, antecedent
        reported = (at for at, unit in enumerate(units) if unit.folded in _REPORTED)
        self._asserted_until = next(reported, len(units))

    def statements(self) -> Iterator[Statement]:
        at = 0
        while at < len(self._units):
            begins = self._begins_clause(at)
            if begins and (equation := self._role_is_name(at)):
                statements, at = equation
                yield from statements
            elif phrase := self._phrase(at):
                yield from phrase.states
                at, subject = phrase.end, phrase.names if begins else []
                has_comma = self._word(at) == ","
                is_plural = phrase.is_plural
                if self._word(at + has_comma) == "who":
                    at, subject, is_plural = at + 1 + has_comma, phrase.names[-1:], False
                found, at = self._clause(at, subject, is_plural=is_plural)
                yield from found
            else:
                at += 1

    def _clause(self, at: int, subject: list[str], *, is_plural: bool) -> _Stated:
        found: list[Statement] = []
        while subject and (predicate := self._predicate(at, subject, is_plural)):
            found, at = found + predicate[0], predicate[1]
            if self._word(at) not in ("and", "but") or self._phrase(at + 1) is not None:
                break
            at += 1
        return found, at

    def _word(self, at: int) -> str:
        return self._units[at].folded if 0 <= at < len(self._units) else ""

    def _is_name(self, at: int) -> bool:
        return at < len(self._units) and self._units[at].kind in ("name", "maybe")

    def _is_possessive(self, at: int) -> bool:
        return self._is_name(at) and self._units[at].possessive

    def _is_mark(self, at: int) -> bool:
        return at < len(self._units) and self._units[at].kind == "mark"

    def _ends(self, at: int, words: frozenset[str] = _AFTER_CLAUSE) -> bool:
        """Whether what stands before may end here: nothing follows that could go on with it."""
        return at >= len(self._units) or self._is_mark(at) or self._word(at) in words

    def _begins_clause(self, at: int) -> bool:
        if at > self._asserted_until:
            return False
        before = at
        while at - before < _MAX_BEFORE and ((word := self._word(before - 1)) in _BEFORE_SUBJECT or word.isdigit()):
            before -= 1
        return before == 0 or self._is_mark(before - 1) or (at == before and self._word(at - 1) in _JOINING)

    def _phrase(self, at: int, *, is_object: bool = False) -> _Phrase | None:
        """A subject or an object: a name, "I", "she", "my sister Lea", or several of these with an "and"."""
        first = member = self._member(at)
        names: list[str] = []
        states: list[Statement] = []
        for _ in range(_MAX_MEMBERS):
            if member is None or not member.names:
                break
            names += member.names
            states += member.states
            joint = self._word(member.end)
            after = member.end + 1 + (joint == "," and self._word(member.end + 1) == "and")
            if self._word(after - 1) == "and" and (last := self._member(after)) is not None and last.names:
                # "Mira works at Kestrel and Karl lives in Oslo": the second name begins a clause.
                if is_object and self._has_verb(last.end):
                    break
                return _Phrase(names + last.names, last.end, states + last.states, is_plural=True)
            member = self._member(after) if joint == "," else None
        return first

    def _has_verb(self, at: int) -> bool:
        return self._word(at) in _PHRASES or self._word(at) in _BE_PRESENT or self._word(at) in _HAVE

    def _member(self, at: int) -> _Phrase | None:
        if role := self._role(at):
            return self._named_role(role)
        word = self._word(at)
        if word in _FIRST_PERSON or word in ("he", "she"):
            return _Phrase(self._meant(word, at), at + 1, is_plural=word in ("we", "us"))
        start = at + 1 if word in ("the", "a", "an", "our") else at
        if not self._is_name(start):
            return None
        unit = self._units[start]
        phrase = _Phrase([] if unit.possessive else [unit.text], start + 1)
        # "Layla, my cousin,", "Anton (Ivo's brother)"
        if self._word(start + 1) in _DASHES and (role := self._role(start + 2)) and self._ends(role.end):
            phrase.states = role.states([unit.text])
            phrase.end = role.end + self._is_mark(role.end)
        return phrase

    def _named_role(self, role: _Role) -> _Phrase | None:
        """ "My sister Lea", "my mother, Ruth, ...", "my students Bram and Ines", "our dog called Rex"."""
        at, has_comma = role.end, self._word(role.end) == ","
        if has_comma or self._word(at) in _NAMED:
            at += 1
        if not self._is_name(at):
            return None
        names, end = [self._units[at].text], at + 1
        if role.is_plural and self._word(end) == "and" and self._is_name(end + 1):
            names, end = [*names, self._units[end + 1].text], end + 2
        is_possessive = self._is_possessive(end - 1)
        if has_comma and (is_possessive or self._word(end) not in (",", ")")):
            return None  # "I met my boss, Tom!" calls Tom
        return _Phrase([] if is_possessive else names, end + has_comma, role.states(names), role.is_plural)

    def _meant(self, word: str, at: int) -> list[str]:
        """Who a pronoun or a possessive word means; nobody when that is not clear."""
        is_third = word in ("he", "she", "his", "her")
        meant = self._antecedent.within(self._units[max(0, at - _MAX_BACK) : at]) if is_third else self._speaker
        return [meant] if meant else []

    def _role(self, at: int) -> _Role | None:
        """ "My best friend", "Tom's boss", "the owner of Kestrel", "a friend of mine"."""
        word = self._word(at)
        if word in ("the", "a", "an"):
            return self._role_of(at + 1)
        if word in ("my", "our", "his", "her"):
            owners = self._meant(word, at)
        else:
            owners = [self._units[at].text] if self._is_possessive(at) else []
        return self._noun(at + 1, owners) if owners else None

    def _role_of(self, at: int) -> _Role | None:
        noun = self._noun(at, [])
        if noun is None or self._word(noun.end) != "of":
            return None
        after = noun.end + 1
        if self._word(after) in ("mine", "ours"):
            return _Role(noun.role, self._meant("mine", at), after + 1)
        after += self._word(after) == "the"
        if not self._is_name(after) or (self._is_possessive(after) and not self._ends(after + 1)):
            return None
        return _Role(noun.role, [self._units[after].text], after + 1)

    def _noun(self, at: int, owners: list[str]) -> _Role | None:
        """The role of these owners whose noun stands there, in its one spelling, behind at most two adjectives."""
        for ahead in range(at, min(at + _MAX_ADJECTIVES + 1, len(self._units))):
            word = self._word(ahead)
            singular = _PLURALS.get(word, word.removesuffix("s") if len(word) > 3 else word)
            if self._units[ahead].kind != "word" or word in _NO_MORE:
                return None
            if word in _ROLES or singular in _ROLES:
                is_plural = word.endswith("s") or word in _PLURALS
                return _Role(role_name(word if word.endswith("ss") else singular), owners, ahead + 1, is_plural)
            if word in ARTICLES or not word.isalpha():
                return None
            if word == "old" and not self._word(ahead + 1).startswith("friend"):
                return None  # "my old boss"
        return None

    def _role_is_name(self, at: int) -> _Stated | None:
        """ "My boss is Henrik", "my husband's name is Stefan", "the owner of Kestrel is called Rosa"."""
        role, named = self._role(at), self._word(at + 1).removesuffix("'s")
        is_ours = self._word(at) in ("my", "our") and self._word(at + 2) == "name"
        if role is None and is_ours and named in _ROLES and self._word(at + 1) != named:
            role = _Role(role_name(named), self._meant("my", at), at + 3)
        if role is None:
            return None
        at, states = role.end, list[Statement]()
        owner = [self._units[at].text] if self._is_possessive(at) else []
        if owner and (noun := self._noun(at + 1, owner)):
            # "My sister Lea's boss"
            states, role, at = role.states(owner), noun, noun.end
        if self._word(at) in ("at", "in") and self._is_name(at + 1):
            at += 2
        if self._word(at) not in ("is", "are"):
            return None
        at += 1
        while self._word(at) in _FILLERS or self._word(at) in _NAMED:
            at += 1
        phrase = self._phrase(at)
        if phrase is None or not phrase.names or not self._ends(phrase.end):
            return None
        return states + phrase.states + role.states(phrase.names), phrase.end

    def _predicate(self, at: int, subject: list[str], is_plural: bool) -> _Stated | None:
        """What a clause says of its subject, from behind the subject on."""
        if self._word(at) in _HAVE and (found := self._has_role(at + 1, subject)):
            return found
        is_be, was = False, False
        while (word := self._word(at)) in _FILLERS or word in _HAVE or word in (*_BE_PRESENT, "was", "been"):
            if word not in _FILLERS and word not in _HAVE:
                is_be, was = True, word == "was"
            at += 1
        if is_be and not was and (found := self._is_role(at, subject)):
            return found
        for words, relation, form in _PHRASES.get(self._word(at), ()):
            end = at + len(words)
            if tuple(unit.folded for unit in self._units[at:end]) != words or (form == _BE) != is_be:
                continue
            fits = form != _BARE or is_plural or subject == [self._speaker]
            if not fits or (was and relation not in _STILL):
                continue
            if is_be and words == ("married",):
                # "Henrike and Tom are married"
                pair = len(subject) == 2 and self._ends(end, _AFTER_ROLE) and self._holds(end)
                return (_stated(subject[:1], relation, subject[1:]), end) if pair else None
            found = self._object(end)
            if found is None or not self._holds(found.end):
                return None
            return found.states + _stated(subject, relation, found.names), found.end
        return None

    def _has_role(self, at: int, subject: list[str]) -> _Stated | None:
        """ "Has a cat called Miso", "have two sons named Leo and Max"."""
        role = self._noun(at + 1, subject)
        if role is None or self._word(role.end) not in _NAMED or self._word(at) in ("his", "her", "their", "your"):
            return None
        named = self._named_role(role)
        return (named.states, named.end) if named is not None else None

    def _is_role(self, at: int, subject: list[str]) -> _Stated | None:
        """ "Is my manager", "is head of Kestrel", "are colleagues"."""
        role = self._role(at) or self._role_of(at)
        noun = role or self._noun(at, subject[1:])
        if noun is None or not self._ends(noun.end, _AFTER_ROLE) or not self._holds(noun.end):
            return None
        if role is not None:
            return role.states(subject), role.end
        return (noun.states(subject[:1]), noun.end) if len(subject) > 1 and noun.is_plural else None

    def _object(self, at: int) -> _Phrase | None:
        """The object of a verb; past "a small boat called" too."""
        if self._word(at) in ARTICLES and not self._is_name(at + 1):
            for ahead in range(at + 1, min(at + 1 + _MAX_NAMING, len(self._units))):
                if self._units[ahead].kind != "word":
                    break
                if self._word(ahead) in _NAMED:
                    at = ahead + 1
                    break
        phrase = self._phrase(at, is_object=True)
        if phrase is None or not phrase.names or self._word(phrase.end) == "or" or self._has_verb(phrase.end):
            return None
        return phrase

    def _holds(self, at: int) -> bool:
        """Whether the rest of the clause takes nothing back: "works at Kestrel no more"."""
        for unit in self._units[at:]:
            if unit.kind == "mark" or unit.folded in _JOINING:
                return True
            if unit.folded in _NEGATIONS:
                return False
        return True


def _stated(subjects: Sequence[str], relation: str, objects: Sequence[str]) -> list[Statement]:
    return [
        Statement(subject=subject, relation=relation, object=target)
        for subject in subjects
        for target in objects
        if subject.casefold() != target.casefold()
    ]
