"""Kin: the words for members of a family, and texts that tell of one. English first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# The plain word for a relation, and other spellings of it. This is the one list: the graph names relations by it.
_SPELLINGS: Final = """
mother: mum mom mama mamma maman mummy mommy
father: dad papa daddy
grandmother: grandma granny nana gran nan oma
grandfather: grandpa granddad grandad opa
stepmother: stepmum stepmom
stepfather: stepdad
husband: hubby
aunt: auntie aunty
"""
# Words that are searched for, too, and those that are asked for by them.
_ALSO: Final = """
sister: sis
brother: bro
parents: mother father mum mom dad
siblings: brother sister
grandparents: grandmother grandfather grandma grandpa
husband: spouse
wife: spouse
spouse: husband wife
son: boy
daughter: girl
cousin: cousins
twin: twins
"""
_ALONE: Final = """uncle niece nephew mother-in-law father-in-law sister-in-law brother-in-law
in-laws partner child children kids"""
_FAMILY: Final = "family families relatives relations kin folks"
_NO_RELATIVE: Final = frozenset(("boy", "girl", "gran", "partner"))


def _table(lines: str) -> dict[str, tuple[str, ...]]:
    parts = [line.partition(":") for line in lines.strip().splitlines()]
    return {word: tuple(others.split()) for word, _, others in parts}


SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = _table(_SPELLINGS)
"""Other spellings of a relation by its plain word: mother has mum, mom and maman."""
SYNONYMS: Final[dict[str, tuple[str, ...]]] = {}
"""Further words to search for, by a word of a question: mother gives mum, mom and maman, family gives all kin."""
for _first, _others in (*SPELLINGS.items(), *_table(_ALSO).items()):
    SYNONYMS[_first] = tuple(dict.fromkeys((*SYNONYMS.get(_first, ()), *_others)))
    for _other in _others:
        SYNONYMS.setdefault(_other, (_first,))
KIN: Final[frozenset[str]] = frozenset(SYNONYMS).union(_ALONE.split()) - _NO_RELATIVE
"""Words that name a relative."""
SYNONYMS.update(dict.fromkeys(_FAMILY.split(), tuple(sorted(word for word in KIN if "-" not in word))))

ANIMALS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(kinds.split())
    for name, kinds in {
        "dog": "dogs puppy pup hound labrador beagle terrier retriever poodle spaniel dachshund husky chien hund",
        "cat": "cats kitten tomcat tabby chat katze",
        "horse": "horses pony mare foal",
        "rabbit": "rabbits bunny",
        "parrot": "parrots budgie parakeet",
        "tortoise": "turtle",
    }.items()
}
"""Animals that people keep, with other words for them."""

_ADJECTIVES: Final = r"(?:\w+\ ){0,2}?"
_RELATIVE: Final = "|".join((*sorted(KIN, key=len, reverse=True), "boy", "girl"))
_TELLS_KIN: Final = re.compile(
    rf"""(?:\b(?:my|our|his|her|their|whose)|['’]s)\ {_ADJECTIVES}(?:{_RELATIVE})\b
       | \b(?:mum|mom|mama|mamma|maman|dad|papa|grandma|grandpa|granny|auntie)\b""",
    re.VERBOSE | re.IGNORECASE,
)


def tells_kin(text: str) -> bool:
    """Whether the text tells of somebody's relative: "my sister", "Ana's boy", "Mum"."""
    return _TELLS_KIN.search(text) is not None


def asks_family(words: frozenset[str]) -> bool:
    """Whether folded words of a question ask for a family as a whole."""
    return not words.isdisjoint(_FAMILY.split())
