"""Relation matching: how well a relation's name fits a word of a question, such as "works at" and `employer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from orion_recall.text.normal import STOP_WORDS, without_possessive, words
from orion_recall.text.people.kin import SPELLINGS

# The name of the role, and other words for the same; those for kin are in `text.people.kin`.
_SPELLINGS = """
fiancé: fiance
fiancée: fiancee
child: kid baby toddler
sibling: siblings
neighbour: neighbor
colleague: coworker co-worker workmate
flatmate: roommate housemate
friend: buddy pal mate
boss: chief
adviser: advisor
trainer: physio
successor: replacement
babysitter: nanny sitter
spouse: spouses
"""

# Whose roles answer a word for a role, when no relation has that name itself.
# With `<` the relation leads from its object to its subject: "Lea mother of Tom" is read from Tom to Lea.
ROLES_OF_ROLES: Mapping[str, str] = {
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
    "husband wife spouse partner": "<husband of, <wife of, <partner of, <spouse of, <fiancé of, <fiancée of",
    "fiancé fiancée": "engaged to",
    "girlfriend boyfriend": "dating, <partner of, girlfriend of, boyfriend of",
    "partner": "<girlfriend of, <boyfriend of",
    "boss manager supervisor": "<manages, <leads, <boss of, <manager of, <supervisor of, <team lead of",
    "report reports": "boss of, manager of, supervisor of",
    "team-mate colleague": "<works with",
    "teacher tutor": "student of, pupil of, <tutor of, <teacher of",
    "student pupil": "teacher of, tutor of",
    "mentor": "mentee of",
    "mentee": "mentor of",
    "trainer coach": "<coach of, <trainer of",
    "doctor": "patient of, <gp of",
    "patient": "doctor of, dentist of, therapist of",
    "landlord landlady": "<landlord of, <landlady of, tenant of",
    "tenant": "landlord of, landlady of",
    "pet pets": "<cat of, <dog of, <kitten of, <puppy of, <rabbit of, <horse of, <parrot of, <hamster of",
    "cat": "<kitten of",
    "dog": "<puppy of",
    "owner": "cat of, dog of, kitten of, puppy of, rabbit of, horse of, belongs to",
    "predecessor": "succeeded, took over from, successor of",
    "successor": "<succeeded, <took over from",
    "conductor": "<conducts, conducted by",
    "leader head director conductor": "<conducts, conducted by, <head of",
    "lead": "<leads, led by, <team lead of",
    "maintainer": "<maintains, <responsible for",
    "responsible": "<responsible for, <leads, <maintains",
    "contact": "<contact at, <contact for",
    "nickname alias": "known as",
    "bakery shop café cafe bar restaurant pub store business": "owns, founded, leads",
    "company studio farm hotel gallery practice workshop": "owns, founded, leads, works at",
    "desk": "rents at",
    "office": "works at, rents at",
    "editor app tool software": "uses, switched to",
}  # fmt: skip
# Asked about a place of work: every "nurse at" or "head of sales at" tells it.
WORKPLACE = frozenset("employer company job workplace work works working".split())
# What ends in "at" and tells no work.
NO_WORK_AT = frozenset("born at|studies at|studied at|studying at|rents at|met at".split("|"))


def _names() -> dict[str, str]:
    kin = {word: name for name, words in SPELLINGS.items() for word in words}
    return kin | {
        word: name
        for line in _SPELLINGS.strip().splitlines()
        for name, _, words in [line.partition(":")]
        for word in words.split()
    }


_NAMES = _names()


def role_name(word: str) -> str:
    """The one name of a role, folded: `mother` for "mum"; a word that is no other spelling stays as it is."""
    return _NAMES.get(word, word)


EQUAL, SAME_STEM, SAME_MEANING = 1.0, 0.9, 0.8
_OVERLAP = 0.7
_ENDINGS = ("ments", "ment", "ings", "ing", "ers", "er", "ors", "or", "ies", "ied", "ed", "es", "ee", "s", "e", "y")
_SHORTEST_STEM = 3

# Words for a role, and the relations that state it. With `<` the relation leads from its object to its subject.
_ROLES: Mapping[str, str] = {
    "employer company job workplace work": "works at, worked at, joined",
    "employee staff": "<works at",
    "colleague coworker teammate": "works with, worked with",
    "boss manager supervisor": "reports to, managed by, led by",
    "report reports": "<reports to, manages, leads",
    "leader head director": "led by, <leads, directed by, <directed",
    "husband wife spouse partner": "married to, engaged to, dating",
    "ex": "divorced from",
    "home address residence city town": "lives in, moved to, based in",
    "origin hometown birthplace": "is from, born in, grew up in",
    "location place": "located in, based in, lives in",
    "headquarters": "based in, located in",
    "owner": "owned by, <owns",
    "property possession": "owns, has",
    "founder": "founded by, <founded",
    "author writer": "written by, <wrote",
    "creator maker inventor": "created by, <created",
    "designer": "designed by, <designed",
    "painter": "painted by, <painted",
    "composer": "composed by, <composed",
    "publisher": "published by, <published",
    "book": "wrote, read, <written by",
    "school university college": "studies at, studied at, graduated from, went to",
    "team club": "plays for, played for, supports",
    "member members": "<part of, <belongs to",
    "friend acquaintance": "knows, met",
    "roommate flatmate housemate": "lives with",
    "successor": "succeeded by",
    "namesake": "named after",
}
# Relations that hold in both directions.
SYMMETRIC = frozenset(
    """married to|engaged to|dating|divorced from|works with|worked with|lives with|knows|met|borders|sister of
    |brother of|husband of|wife of|partner of|friend of|colleague of|cousin of|twin of|neighbour of|neighbor of
    |roommate of|flatmate of|coworker of|co-worker of|teammate of|sibling of|spouse of|known as""".replace("\n", "")
    .replace("    ", "").split("|")
)  # fmt: skip


def _by_role() -> dict[str, tuple[tuple[str, bool], ...]]:
    """The relations of every role: (relation, whether it is followed backwards)."""
    table: dict[str, tuple[tuple[str, bool], ...]] = {}
    for names, relations in (*_ROLES.items(), *ROLES_OF_ROLES.items()):
        parts = [part.strip() for part in relations.split(",")]
        read = tuple((folded(part.removeprefix("<")), part.startswith("<")) for part in parts)
        for role in names.split():
            table[role] = (*table.get(role, ()), *read)
    return table


# Words for people of whom the graph may say whose they are: "my editor".
_PEOPLE = frozenset(
    """sister brother mother father mum mom dad son daughter wife husband partner girlfriend boyfriend fiancé
    fiancée cousin uncle aunt niece nephew grandmother grandfather grandma grandpa granddaughter grandson stepmother
    stepfather parents children in-laws doctor dentist vet lawyer accountant bookkeeper landlord landlady tenant
    neighbour neighbor teacher tutor coach trainer mentor therapist editor producer agent publisher contact
    assistant secretary colleague intern client customer supplier plumber electrician gardener cleaner nanny
    babysitter conductor captain chair chairman chairwoman president principal dog cat horse""".split()
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
    """known as|is|is a|named after|works at|works for|works with|works as|worked at|leads|manages|reports to
    |founded|owns|married to|engaged to|dating|lives with|member of|part of""".replace("\n", "").replace("    ", "")
    .split("|")
)  # fmt: skip


@lru_cache(maxsize=4096)
def identifies(relation: str) -> float:
    """How far a relation tells who or what one of its ends is, in [0, 1]: 1 for roles, 0 for what somebody did."""
    name = folded(relation)
    role = _same_role(name)
    if name == "known as" or (role.endswith(" of") and is_role(role.removesuffix(" of"))):
        return EQUAL
    if name in _IDENTITIES or (name.endswith((" at", " of", " for")) and name not in NO_WORK_AT):
        return SAME_MEANING
    return 0.0


def folded(name: str) -> str:
    """The words of a name, folded: `WORKS_AT`, "works at" and "Works-at" are one."""
    return " ".join(without_possessive(word) for word in words(name.replace("_", " ")))


def _same_role(name: str) -> str:
    """A folded name with the role that it is, or that it ends in "of" after, by its one name."""
    role, of, _ = name.partition(" of")
    return f"{role_name(role)} of" if of and name.endswith(" of") else role_name(name)


_RELATIONS_OF = _by_role()


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
    if name == f"{asked} at" and asked not in WORKPLACE:
        return SAME_STEM, True
    for meant, backwards in _RELATIONS_OF.get(asked, ()):
        if meant == name:
            return SAME_MEANING, backwards
    if asked in WORKPLACE and name.endswith(" at") and name not in NO_WORK_AT:
        return _OVERLAP, False
    of = name.endswith(" of") and not asked.endswith(" of")
    asked_stems, stems = _stems(asked), _stems(name)
    if asked_stems == stems:
        return SAME_STEM, of
    shared = len(asked_stems & stems)
    return (_OVERLAP * shared / len(asked_stems | stems), of) if shared else (0.0, False)


def fitting(wanted: str, relations: Iterable[str]) -> dict[str, tuple[float, bool]]:
    """The relations that fit the wanted word at all, with their `compatibility`."""
    found = {relation: compatibility(wanted, relation) for relation in relations}
    return {relation: fit for relation, fit in found.items() if fit[0] > 0.0}


def _stems(name: str) -> frozenset[str]:
    """The stems of the words without stop words; of all words when nothing is left ("from")."""
    parts = name.split()
    return frozenset(stem(word) for word in parts if word not in STOP_WORDS) or frozenset(parts)


PERSON, PLACE, ORGANISATION = "Person", "Place", "Organisation"
KINDS = (PERSON, PLACE, ORGANISATION)

_KIN = (
    "sister brother mother mom mum father dad son daughter wife husband partner girlfriend boyfriend fiancé "
    "fiancée fiance fiancee friend boss manager colleague coworker teammate neighbor neighbour roommate flatmate "
    "cousin uncle aunt niece nephew grandmother grandma grandfather grandpa grandson granddaughter stepmother "
    "stepfather godmother godfather teacher mentor coach doctor dentist therapist assistant supervisor "
    "landlord student twin"
).split()
# Kind of the subject, relations, kind of the object; "-" where the relation implies no kind for that end.
_IMPLIED_KINDS = (
    (PERSON, "works at, worked at, studies at, studied at, graduated from, teaches at, taught at, plays for, "
             "played for", ORGANISATION),
    (PERSON, "lives in, lived in, born in, grew up in, died in, moved to, moved from, married in", PLACE),
    (PERSON, "married to, engaged to, dating, divorced from, lives with, works with, worked with, knows, met, "
             "hired, reports to, invited", PERSON),
    (PERSON, "joined, founded", ORGANISATION),
    (PERSON, "wrote, painted, composed, directed, loves, likes, enjoys, prefers, dislikes, read, watched, "
             "adopted", "-"),
    (ORGANISATION, "founded by, led by", PERSON),
    (ORGANISATION, "based in", PLACE),
    ("-", "written by, painted by, composed by, directed by, designed by, created by", PERSON),
    ("-", "located in, flows into, flows through", PLACE),
    (PERSON, ", ".join(f"{kin} of" for kin in _KIN), PERSON),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RelationEnds:
    """The relations (IRIs) whose subject, and those whose object, is of one kind."""

    subject: tuple[str, ...]
    object: tuple[str, ...]


def _table() -> dict[str, tuple[str, str]]:
    return {
        folded(relation): (subject, object_)
        for subject, relations, object_ in _IMPLIED_KINDS
        for relation in relations.split(",")
    }


_OF_RELATION = _table()


def kinds_of_ends(relation: str) -> tuple[str | None, str | None]:
    """The kinds of a relation's subject and object by the relation's name; None where it implies none."""
    subject, object_ = _OF_RELATION.get(folded(relation), ("-", "-"))
    return (subject if subject != "-" else None, object_ if object_ != "-" else None)


def relations_of_kind(kind: str, relations: Mapping[str, str]) -> RelationEnds:
    """Those of the graph's relations (name by IRI) that imply the kind for one of their ends."""
    return RelationEnds(
        subject=tuple(iri for iri, name in relations.items() if kinds_of_ends(name)[0] == kind),
        object=tuple(iri for iri, name in relations.items() if kinds_of_ends(name)[1] == kind),
    )


def most_frequent_kind(votes: Iterable[str]) -> str | None:
    """The kind with most votes, of equals the first in `KINDS`; None without votes."""
    counted = list(votes)
    return max(KINDS, key=counted.count) if counted else None
