"""Role words: one name for all spellings of a relative, a friend or an office, and which roles answer which.

Relations of people are named by the role and "of": "Lea is my mum" and "my mother Lea" are both `mother of`.
"""

from __future__ import annotations

from collections.abc import Mapping

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
