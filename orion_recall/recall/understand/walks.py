"""Walks through the graph that a question asks for beside possessive chains; English only.

- `who`: "Who is Hana Sato?" asks for what Hana is;
- `related`: "How is Ana related to Bo?", "what connects the pump with Fjord Labs?" ask for a path between the two;
- `temporal`: "What happened to the pump on 12 May 2026?" asks for what is told of that time.

A walk through a time begins at what the question quotes, then at names with capitals; where it names nothing so, at
what the graph knows of its words, else at the one who asks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final

from orion_recall.recall.understand.entities import EntityKind, NamedEntity
from orion_recall.values import Chain, QuestionTime, WalkKind

_MOST_SEEDS = 3
_READ_CHARS = 500
_ORDER: Sequence[EntityKind] = ("quoted", "capitalised", "known")
_END = r"[^?!.;]{1,80}?"
_TIE = r"(?:relat(?:ion(?:ship)?|ed)|connect(?:ion|ed)|link(?:ed)?|tied|path)"
_LATER = r"(?:\s+(?:in|on|since|before|after|during|back)\b[^?!.]*)?\s*[?!.]*\s*$"
_RELATED = tuple(
    re.compile(pattern + _LATER, re.IGNORECASE)
    for pattern in (
        rf"\bhow\s+(?:is|are|was|were|am)\s+(?P<a>{_END})\s+{_TIE}\s+(?:to|with)\s+(?P<b>{_END})",
        rf"\bhow\s+(?:are|were)\s+(?P<a>{_END})\s+and\s+(?P<b>{_END})\s+{_TIE}",
        rf"\b(?:what|who)\s+(?:connects|links|relates|ties)\s+(?P<a>{_END})\s+(?:and|with|to)\s+(?P<b>{_END})",
        rf"\b{_TIE}\s+between\s+(?P<a>{_END})\s+and\s+(?P<b>{_END})",
        rf"\b{_TIE}\s+from\s+(?P<a>{_END})\s+to\s+(?P<b>{_END})",
        rf"\bhow\s+(?:does|do|did)\s+(?P<a>{_END})\s+know\s+(?P<b>{_END})",
        rf"\bwhat\s+(?:does|do|did|has|have)\s+(?P<a>{_END})\s+(?:have\s+)?to\s+do\s+with\s+(?P<b>{_END})",
        rf"\bwhat\s+(?:does|do|did)\s+(?P<a>{_END})\s+and\s+(?P<b>{_END})\s+have\s+in\s+common",
    )
)
_WHO_AM_I = re.compile(r"^\W*(?:and\s+|so\s+)?who\s+am\s+i\W*$", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)
_ME = frozenset("i me myself".split())


_WHO_IS: Final = re.compile(
    r"""^\W*(?:(?:and|so|ok(?:ay)?|please|tell\ me|do\ you\ know|remind\ me|again)\W+)*
        who(?:\ exactly)?(?:['’]s|\ is|\ are|\ was|\ were)\ (?:this\ |that\ )?
        (?P<name>[^\W\d_][\w'’.-]*(?:\ [^\W\d_][\w'’.-]*){0,3}?)
        (?:\ (?:again|exactly|anyway|please|then))*\s*[?.!]*\s*$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_NAMES: Final = frozenset(
    """the a an my our your his her their this that these those in on at to there it he she they we i you going
    coming here responsible one""".split()
)


def walks(
    text: str,
    kinds: Collection[WalkKind],
    *,
    named: Sequence[NamedEntity] = (),
    time: QuestionTime,
    asker: str | None = None,
) -> tuple[Chain, ...]:
    """The walks of these kinds that the text asks for, in the order in which they are tried.

    `named` are the names in the text, quoted ones first; `asker` is the one who asks. A seed "" stands for what the
    graph knows of the text's words.
    """
    found: list[Chain] = []
    if "who" in kinds:
        found += _who(text, asker)
    if "related" in kinds:
        # Runs of blanks would be tried at every place of a pattern.
        found += _related(" ".join(text[: 4 * _READ_CHARS].split())[:_READ_CHARS], asker)
    if "temporal" in kinds and time.intervals:
        found += _temporal(named, time, asker)
    return tuple(found)


def _who(text: str, asker: str | None) -> Iterator[Chain]:
    name = asker if _WHO_AM_I.match(text) else asks_who(text)
    if name is not None:
        yield Chain(seed=name, via=(), words=f"who is {name}", asks="who")


@lru_cache(maxsize=256)
def _ends(text: str) -> tuple[str, str] | None:
    for pattern in _RELATED:
        if (match := pattern.search(text)) is not None:
            return _bare(match["a"]), _bare(match["b"])
    return None


def _related(text: str, asker: str | None) -> Iterator[Chain]:
    if (ends := _ends(text)) is None:
        return
    one, other = (asker if end.casefold() in _ME else end for end in ends)
    if one and other and one.casefold() != other.casefold():
        yield Chain(seed=one, via=(), words=f"{one} and {other}", asks="related", target=other)


def _temporal(named: Sequence[NamedEntity], time: QuestionTime, asker: str | None) -> Iterator[Chain]:
    words = " ".join(one.words for one in time.intervals)
    ordered = sorted(named, key=lambda one: _ORDER.index(one.kind))
    in_time = {word for one in time.intervals for word in one.words.casefold().split()}
    # "May" and "Monday" have capitals, too.
    seeds = [one.name for one in ordered if not in_time.issuperset(one.name.casefold().split())][:_MOST_SEEDS]
    for seed in seeds or ("", *((asker,) if asker else ())):
        yield Chain(seed=seed, via=(), words=words, asks="temporal")


def _bare(name: str) -> str:
    return _ARTICLE.sub("", " ".join(name.split())).strip(" \"'“”‘’,")


def asks_who(text: str) -> str | None:
    """The name in "Who is Hana Sato?" as written; None for another question, and for "who is my boss"."""
    match = _WHO_IS.match(text)
    if match is None:
        return None
    name = match["name"].removesuffix("'s").removesuffix("’s")
    first = name.split()[0].casefold()
    if first in _NO_NAMES or re.search(r"['’]s?\s|\bof\b", match["name"]) or match["name"] != name:
        return None
    return name
