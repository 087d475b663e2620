"""Wishes, considerations and advice, which state nothing: "I'd like to sell the van", "you could move".

English, as data. What is wished is cut out of a text up to the end of its clause, before changes are looked for.
"""

from __future__ import annotations

import re

from orion_recall.text.normal import words

_WISHES = """
    i'd like | we'd like | i would like | we would like | would like to | i'd love | we'd love | would love |
    i'd rather | we'd rather | i'd prefer | we'd prefer | i wish | we wish | he wishes | she wishes | they wish
    | if only | maybe i should | maybe we should | perhaps i should | perhaps we should | maybe i'll | maybe
    we'll | perhaps i'll | perhaps we'll | i should | we should | i ought to | we ought to | i really should |
    we really should | might | thinking about | thinking of | think about | think of | thought about | thought
    of | toying with | considering | dreaming of | dreaming about | dream of | dream about | hope to | hopes to
    | hoping to | want to | wants to | wanted to | would be nice | would be great | wouldn't mind | what if |
    could imagine | tempted to | how about | what about | wondering about | wondering whether | wondering if |
    wonder whether | wonder if | we could also | we could just | we could maybe | i could also | i could maybe |
    maybe we could | maybe i could | proposed to | proposes to | suggested to | suggests to | offered | offers
"""
_WISHING = frozenset(
    "want wants wanting wish wishes wished dream dreams dreaming hope hopes hoping would should might could "
    "considering thinking idea ideas someday".split()
)
"""Words of a question that asks for wishes."""
DECISIONS = frozenset(
    "decided decide decision settled signed booked bought ordered paid chose chosen confirmed picked hired joined "
    "started enrolled registered got agreed done".split()
)
"""Words that say a wish was decided on, carried out or dropped."""
_LISTED = sorted((" ".join(one.split()) for one in _WISHES.split("|")), key=len, reverse=True)
_WISH = re.compile(
    r"(?<![\w'])(?<!n't )(?<!not )(?<!never )(?:" + "|".join(map(re.escape, _LISTED)) + r")(?![\w'])"
    r".*?(?=[.;:!?\n]|,? (?:but|so|and) (?:i|we|he|she|they|it|now)\b|$)"
)

_ADVICE = re.compile(
    r"^(?:(?:and|or|but|so|then|maybe|perhaps|just),? )*(?:try (?!to\b)|why (?:not|don't you|don't we)\b)"
    r"|\byou (?:could|might)\b|\bhave you (?:considered|tried|thought)\b|\bhow about you\b"
)

_CONDITION = re.compile(r"\W*(?:(?:and|but|so|or) )?(?:if|unless|in case|provided)\b")


def is_advice(folded: str) -> bool:
    """Whether a folded sentence tells somebody what he could do, which nobody has done."""
    return _ADVICE.search(folded) is not None


def is_condition(folded: str) -> bool:
    """Whether a folded sentence tells what would be, and states nothing: "if it rains I'll dry it inside"."""
    return _CONDITION.match(folded) is not None


def without_wishes(folded: str) -> str:
    """The folded text without its wishes; what was decided beside them stays."""
    return _WISH.sub(" ", folded)


def is_wish(folded: str) -> bool:
    """Whether the folded text tells a wish."""
    return _WISH.search(folded) is not None


def asks_for_wishes(question: str) -> bool:
    """Whether a question asks for what is wished or considered."""
    return not _WISHING.isdisjoint(words(question))
