"""The kind of an entity (person, place, organisation), inferred from its relations and never stored.

A speaker is a person, and so is an end of a relation that only people have: "Ida works at", "sister of".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orion_recall.graph.relation_words import folded

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
