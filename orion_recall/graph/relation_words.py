"""Relation matching: how well a relation's name fits a word of a question, such as "works at" and `employer`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache

from orion_recall.text.names import KIN, SPELLINGS
from orion_recall.text.normal import STOP_WORDS, whole_words, without_possessive

# The name of the role, and other words for the same; those for kin are in `text.names`.
_NAMES = {word: name for name, words in SPELLINGS.items() for word in words} | {
    "fiance": "fiancé", "fiancee": "fiancée", "kid": "child", "baby": "child", "siblings": "sibling",
    "neighbor": "neighbour", "coworker": "colleague", "co-worker": "colleague", "workmate": "colleague",
    "roommate": "flatmate", "housemate": "flatmate", "chief": "boss", "spouses": "spouse",
}  # fmt: skip


def role_name(word: str) -> str:
    """The one name of a role, folded: `mother` for "mum"; a word that is no other spelling stays as it is."""
    return _NAMES.get(word, word)


EQUAL, SAME_STEM, SAME_MEANING = 1.0, 0.9, 0.8
_OVERLAP = 0.7
_ENDINGS = ("ments", "ment", "ings", "ing", "ers", "er", "ors", "or", "ies", "ied", "ed", "es", "ee", "s", "e", "y")
_SHORTEST_STEM = 3

# Words for a role, and the relations that answer them where none has that name itself. With `<` the relation leads
# from its object to its subject: "Lea mother of Tom" is read from Tom to Lea.
_ROLES: Mapping[str, str] = {
    "employer company job workplace work": "works at, worked at, joined",
    "employee staff": "<works at",
    "colleague coworker teammate": "works with, worked with, <works with",
    "boss manager supervisor": "reports to, managed by, led by, <manages, <leads, <boss of, <manager of",
    "report reports": "<reports to, manages, leads, boss of, manager of, supervisor of",
    "leader head director lead": "led by, <leads, <head of, <director of",
    "husband wife spouse partner": "married to, engaged to, <husband of, <wife of, <partner of, <spouse of",
    "girlfriend boyfriend": "dating, <partner of, girlfriend of, boyfriend of",
    "home address residence city town": "lives in, moved to, based in",
    "origin hometown birthplace": "is from, born in, grew up in",
    "location place headquarters": "located in, based in, lives in",
    "owner": "owned by, <owns, belongs to, cat of, dog of",
    "property possession": "owns, has",
    "founder": "founded by, <founded",
    "author writer": "written by, <wrote",
    "school university college": "studies at, studied at, graduated from",
    "member members": "<part of, <belongs to",
    "friend acquaintance": "knows, met",
    "parent parents": "<mother of, <father of, <parent of, son of, daughter of, child of",
    "mother father": "son of, daughter of, child of, <parent of",
    "child children": "<son of, <daughter of, <child of, mother of, father of, parent of",
    "son daughter": "<child of, mother of, father of, parent of",
    "sibling": "<sister of, <brother of, <twin of, <sibling of",
    "sister brother": "<sibling of, <twin of",
    "grandmother grandfather": "grandson of, granddaughter of, grandchild of",
    "grandparent grandparents": "<grandmother of, <grandfather of, grandson of, granddaughter of, grandchild of",
    "grandson granddaughter grandchild": "grandmother of, grandfather of",
    "aunt uncle": "niece of, nephew of",
    "niece nephew": "aunt of, uncle of",
    "teacher tutor": "student of, <tutor of, <teacher of",
    "student": "teacher of, tutor of",
    "mentor": "mentee of",
    "mentee": "mentor of",
    "landlord landlady": "<landlord of, <landlady of, tenant of",
    "tenant": "landlord of, landlady of",
    "pet pets": "<cat of, <dog of",
    "nickname alias": "known as",
}  # fmt: skip
# Asked about a place of work: every "nurse at" or "head of sales at" tells it.
_WORKPLACE = frozenset("employer company job workplace work works working".split())
# What ends in "at" and tells no work.
_NO_WORK_AT = frozenset("born at|studies at|studied at|met at".split("|"))
# Relations that hold in both directions.
SYMMETRIC = frozenset(
    """married to|engaged to|dating|works with|worked with|lives with|knows|met|sister of|brother of|husband of
    |wife of|partner of|friend of|colleague of|cousin of|twin of|neighbour of|neighbor of|flatmate of|roommate of
    |teammate of|coworker of|sibling of|spouse of|known as""".replace("\n    ", "").split("|")
)


# Words for people of whom the graph may say whose they are: "my editor".
_PEOPLE = KIN | frozenset(
    """girlfriend boyfriend fiancé fiancée doctor dentist vet lawyer accountant landlord landlady tenant neighbour
    neighbor teacher tutor coach trainer mentor therapist editor agent assistant colleague client customer gardener
    babysitter dog cat horse""".split()
)


# What a clause asks for: "where does Ana live" asks for her home.
_ROLES_OF_CLAUSES = {
    "where live": "home",
    "where work": "workplace",
    "where study": "school",
    "who report": "boss",
    "who work for": "employer",
    "who work with": "colleague",
    "who live with": "roommate",
}


def role_of_clause(asking: str, verb: str, preposition: str) -> str | None:
    """The role that a clause asks for: `boss` for "who … report to", None where it asks for none."""
    asking = "who" if asking == "whom" else asking
    found = _ROLES_OF_CLAUSES.get(f"{asking} {verb} {preposition}")
    return found or _ROLES_OF_CLAUSES.get(f"{asking} {verb}")


def is_role(word: str) -> bool:
    """Whether a word of a question is one for a relation, such as `employer` or `sister`."""
    return word in _RELATIONS_OF or word in _PEOPLE


# Relations that tell who somebody is, beside roles ("sister of") and offices ("head of sales at").
_IDENTITIES = frozenset(
    """is|is a|works with|works as|leads|manages|reports to|founded|owns|married to|engaged to|dating
    |lives with""".replace("\n    ", "").split("|")
)


@lru_cache(maxsize=4096)
def identifies(relation: str) -> float:
    """How far a relation tells who or what one of its ends is, in [0, 1]: 1 for roles, 0 for what somebody did."""
    name = folded(relation)
    role = _same_role(name)
    if name == "known as" or (role.endswith(" of") and is_role(role.removesuffix(" of"))):
        return EQUAL
    if name in _IDENTITIES or (name.endswith((" at", " of", " for")) and name not in _NO_WORK_AT):
        return SAME_MEANING
    return 0.0


def folded(name: str) -> str:
    """The words of a name, folded: `WORKS_AT`, "works at" and "Works-at" are one."""
    return " ".join(without_possessive(word) for word in whole_words(name.replace("_", " ")))


def _same_role(name: str) -> str:
    """A folded name with the role that it is, or that it ends in "of" after, by its one name."""
    role, of, _ = name.partition(" of")
    return f"{role_name(role)} of" if of and name.endswith(" of") else role_name(name)


# The relations of every role: (relation, whether it is followed backwards).
_RELATIONS_OF: dict[str, list[tuple[str, bool]]] = defaultdict(list)
for _names, _relations in _ROLES.items():
    for _role in _names.split():
        for _part in _relations.split(", "):
            _RELATIONS_OF[_role].append((folded(_part.removeprefix("<")), _part.startswith("<")))


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """The word without its common English ending: employer, employed and employs are one."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word.removesuffix(ending)
    return word


@lru_cache(maxsize=65_536)
def compatibility(wanted: str, relation: str) -> tuple[float, bool]:
    """How well a relation fits the wanted word, in [0, 1], and whether it is followed from object to subject.

    "Ana's sister" is the person who is "sister of" Ana: a relation that ends in "of" is followed backwards, unless
    the wanted word ends in "of" too.
    """
    asked, name = _same_role(folded(wanted)), _same_role(folded(relation))
    if not asked or not name:
        return 0.0, False
    if asked == name:
        return EQUAL, False
    if name == f"{asked} of":
        return EQUAL, True
    if name == f"{asked} at" and asked not in _WORKPLACE:
        return SAME_STEM, True
    for meant, backwards in _RELATIONS_OF.get(asked, ()):
        if meant == name:
            return SAME_MEANING, backwards
    if asked in _WORKPLACE and name.endswith(" at") and name not in _NO_WORK_AT:
        return _OVERLAP, False
    of = name.endswith(" of") and not asked.endswith(" of")
    asked_stems, stems = _stems(asked), _stems(name)
    if asked_stems == stems:
        return SAME_STEM, of
    shared = len(asked_stems & stems)
    return (_OVERLAP * shared / len(asked_stems | stems), of) if shared else (0.0, False)


def fitting(wanted: str, relations: Iterable[str]) -> dict[str, tuple[float, bool]]:
    """The relations that fit the wanted word at all, with their `compatibility`."""
    return {one: fit for one in relations if (fit := compatibility(wanted, one))[0] > 0.0}


def _stems(name: str) -> frozenset[str]:
    """The stems of the words without stop words; of all words when nothing is left ("from")."""
    parts = name.split()
    return frozenset(stem(word) for word in parts if word not in STOP_WORDS) or frozenset(parts)


PERSON, PLACE, ORGANISATION = "Person", "Place", "Organisation"
KINDS = (PERSON, PLACE, ORGANISATION)

# Kind of the subject, relations, kind of the object; None where the relation implies no kind for that end.
_IMPLIED_KINDS = (
    (PERSON, "works at, worked at, studies at, studied at, teaches at, joined, founded", ORGANISATION),
    (PERSON, "lives in, lived in, born in, grew up in, died in, moved to, moved from", PLACE),
    (PERSON, "married to, engaged to, dating, lives with, works with, worked with, knows, met, reports to", PERSON),
    (PERSON, "wrote, painted, composed, likes, loves, prefers, adopted", None),
    (ORGANISATION, "founded by, led by", PERSON),
    (ORGANISATION, "based in", PLACE),
    (None, "written by, painted by, composed by, directed by, designed by, created by", PERSON),
    (None, "located in", PLACE),
    (PERSON, ", ".join(f"{role} of" for role in sorted(_PEOPLE - {"dog", "cat", "horse"})), PERSON),
    (PERSON, "friend of, boss of, manager of, supervisor of, student of, partner of", PERSON),
)  # fmt: skip
_OF_RELATION = {
    folded(relation): (subject, object_)
    for subject, relations, object_ in _IMPLIED_KINDS
    for relation in relations.split(",")
}


def kinds_of_ends(relation: str) -> tuple[str | None, str | None]:
    """The kinds of a relation's subject and object by the relation's name; None where it implies none."""
    return _OF_RELATION.get(folded(relation), (None, None))
