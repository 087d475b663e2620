"""Kin: the words for members of a family, and their synonyms. English first."""

from __future__ import annotations

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
KIN: Final[frozenset[str]] = frozenset(SYNONYMS).union(_ALONE.split()) - {"boy", "girl", "gran", "partner"}
"""Words that name a relative."""
SYNONYMS.update(dict.fromkeys(_FAMILY.split(), tuple(sorted(word for word in KIN if "-" not in word))))
