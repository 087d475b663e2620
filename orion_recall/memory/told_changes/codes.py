"""Telephone numbers and codes that a text tells: of locks, doors, alarms."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from orion_recall.text.normal import words

_PHONE: Final = re.compile(r"(?<![\w.,])(?!(?:19|20)\d\d[-/])\+?\d(?:[ ./-]?\d){6,13}(?![\w])")
_CODE: Final = re.compile(r"(?<![\w.,:/€$£-])\d{4,6}(?![\w:/%-]|[.,]\d)")
_LOCKS: Final = {
    **dict.fromkeys("lock locks padlock padlocks keypad combination".split(), "lock"),
    **{word: word for word in "alarm safe pin".split()},
}
_OF_CODES: Final = _LOCKS.keys() | frozenset(("code", "codes", "number", "numbers"))
_OF_PHONES: Final = frozenset(
    """
        phone telephone mobile cell number numbers line call ring reach dial text whatsapp save sms hotline dispatch
        extension on old new
    """.split()
)
_FOR_TODAY: Final = re.compile(r"\b(?:(?:for |only |just )today|today only|for now|this once|till tomorrow)\b")
_IS_NEW: Final = frozenset(
    "new now changed change different instead old from since another other save cross took dies lost fell".split()
)


class Codes(NamedTuple):
    """`phones` and `codes` as their digits; `locks` are the kinds of locks named.

    `is_new`: a word says that one is new, `for_today`: that it is for a day or a while.
    """

    phones: frozenset[str]
    codes: frozenset[str]
    locks: frozenset[str]
    is_new: bool
    for_today: bool


NO_CODES: Final = Codes(frozenset(), frozenset(), locks=frozenset(), is_new=False, for_today=False)


def codes_in(folded: str) -> Codes:
    """The telephone numbers and codes of a folded text; a number of four digits alone is no code."""
    if not any(map(str.isdigit, folded)):
        return NO_CODES
    said = frozenset(words(folded))
    found = _PHONE.finditer(folded) if not said.isdisjoint(_OF_PHONES) else ()
    phones = frozenset(re.sub(r"\D", "", one[0]) for one in found)
    rest = _PHONE.sub(" ", folded)
    codes = frozenset(_CODE.findall(rest)) if not said.isdisjoint(_OF_CODES) else frozenset[str]()
    return Codes(
        phones,
        codes,
        locks=frozenset(_LOCKS[word] for word in said if word in _LOCKS),
        is_new=not said.isdisjoint(_IS_NEW),
        for_today=_FOR_TODAY.search(folded) is not None,
    )


def is_another_code(new: Codes, old: Codes, *, of_one: bool, shares: bool) -> bool:
    """Whether the newer text tells another number in place of the older one's.

    `of_one`: both are of one person's; `shares`: they share a word that says of what they are.
    """
    if new.phones and old.phones and new.phones.isdisjoint(old.phones) and (shares or (of_one and new.is_new)):
        return True
    lengths = {*map(len, new.codes)} & {*map(len, old.codes)}
    return bool(lengths) and new.codes.isdisjoint(old.codes) and (shares or not new.locks.isdisjoint(old.locks))
