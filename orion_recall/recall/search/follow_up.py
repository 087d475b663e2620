"""What the first hits name, followed one step: to the memories of that title, and by a second search.

A question of several steps names the first thing and asks for the last. The passage about the first names what
comes next: where a memory has that name for its title, it is the next step (`links`); where none has, the names
that the first hits bring join a second search by keywords (`second_step`). Both are parts of the score; a profile
says how much they count, and what counts nothing is not looked for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from orion_recall.errors import ModelError, SourceError
from orion_recall.interfaces import Source, TitleFinder
from orion_recall.profile.sections import RankingWeights
from orion_recall.recall.search.fallback import INDEX_ARMS
from orion_recall.text.normal import words
from orion_recall.text.titles import names_in, title_names
from orion_recall.values import (
    Candidate,
    MemoryView,
    Question,
    SearchRequest,
    SourceName,
    SourceReport,
)

_LINKING, _MOST_LINKED = 5, 64
_STEPPING, _MOST_NAMES, _MOST_STEPPED, _MOST_NEW = 2, 24, 100, 16

Kept = Sequence[tuple[Candidate, MemoryView]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Values in [0, 1] by part and key; `further` are candidates that were not there before, yet to be read."""

    parts: Mapping[str, Mapping[int, float]] = field(default_factory=dict[str, Mapping[int, float]])
    further: tuple[Candidate, ...] = ()


NOTHING = Followed()


class _Way(NamedTuple):
    """How much leads to a memory, and by which arm it came, or that which led to it."""

    share: float
    source: SourceName
    read: Callable[[], MemoryView] | None = None


async def follow(
    kept: Kept,
    question: Question,
    requests: Mapping[SourceName, SearchRequest],
    reports: Sequence[SourceReport],
    *,
    ranking: RankingWeights,
    arms: Mapping[SourceName, Source],
    titles: TitleFinder | None,
    similarities: Mapping[int, float],
    timeout_s: float,
) -> Followed:
    """What `kept`, best first, leads to in the scope of the requests. What fails or is late leads nowhere.

    `similarities` are the cosines of what the dense search found: a further candidate keeps its own.
    """
    well = {report.source for report in reports if report.status in ("ok", "empty")}
    asked = [requests[name] for name in INDEX_ARMS if name in well]
    if not asked or not kept or timeout_s <= 0:
        return NOTHING
    parts: dict[str, Mapping[int, float]] = {}
    further: dict[int, Candidate] = {}
    known = {candidate.key for candidate, _ in kept}
    looking: dict[str, Coroutine[Any, Any, Mapping[int, _Way]]] = {}
    if ranking.links > 0 and titles is not None:
        looking["links"] = _linked(kept, question, asked[0], titles)
    if ranking.second_step > 0 and "lexical" in well:
        looking["second_step"] = _stepped(kept, question, requests["lexical"], arms["lexical"])
    found = await asyncio.gather(*(_or_nothing(one, timeout_s) for one in looking.values()))
    for name, ways in zip(looking, found, strict=True):
        if not ways:
            continue
        parts[name] = {key: way.share for key, way in ways.items()}
        new = sorted([(-way.share, key) for key, way in ways.items() if key not in known])
        for _, key in new[:_MOST_NEW]:
            way = ways[key]
            near: dict[SourceName, float] = {"vector": similarities[key]} if key in similarities else {}
            further.setdefault(key, Candidate(key=key, scores=near, read=way.read, best_source=way.source))
    return Followed(parts=parts, further=tuple(further.values()))


async def _or_nothing(looking: Coroutine[Any, Any, Mapping[int, _Way]], timeout_s: float) -> Mapping[int, _Way]:
    try:
        async with asyncio.timeout(timeout_s):
            return await looking
    except (SourceError, ModelError, TimeoutError):
        return {}


async def _linked(
    kept: Kept, question: Question, request: SearchRequest, titles: TitleFinder
) -> Mapping[int, _Way]:
    """The memories whose titles stand in the question or in one of the first hits.

    What a text gives is its own score, shared among all that it names: a list of names leads nowhere.
    """
    best = max((candidate.fused for candidate, _ in kept), default=0.0) or 1.0
    naming: list[tuple[float, SourceName, frozenset[str], frozenset[int]]] = [
        (1.0, kept[0][0].best_source, names_in(question.text), frozenset[int]())
    ]
    for candidate, memory in kept[:_LINKING]:
        own = title_names(memory.title) if memory.title else ()
        named = (
            names_in(memory.text).union(" ".join(words(label)) for label in memory.entities).difference(own, ("",))
        )
        naming.append((candidate.fused / best, candidate.best_source, named, frozenset((candidate.key,))))
    wanted = sorted(frozenset[str]().union(*(named for _, _, named, _ in naming)))
    found = await titles.titled(wanted, request.scope, _MOST_LINKED)
    ways: dict[int, _Way] = {}
    for gain, source, named, itself in naming:
        targets = [key for key, called in found.items() if key not in itself and not named.isdisjoint(called)]
        for key in targets:
            share = gain / (1.0 + math.log2(len(targets)))
            if key not in ways or share > ways[key].share:
                ways[key] = _Way(share, source)
    return ways


async def _stepped(kept: Kept, question: Question, request: SearchRequest, lexical: Source) -> Mapping[int, _Way]:
    """What the keywords find of the question together with what the first hits name and it does not.

    Those hits themselves gain nothing: they hold every one of these names.
    """
    first, asked = kept[:_STEPPING], frozenset(words(question.text))
    labels = dict.fromkeys(label for _, memory in first for label in memory.entities)
    new = [label for label in labels if not asked.issuperset(words(label))][:_MOST_NAMES]
    if not new:
        return {}
    text = " ".join((question.keyword_text, *new))
    further = replace(request, question=replace(question, keyword_text=text), limit=_MOST_STEPPED)
    hits = await lexical.search(further)
    low = hits[-1].score if hits else 0.0
    span = hits[0].score - low if hits else 0.0
    begun = {candidate.key for candidate, _ in first}
    return {
        hit.key: _Way((hit.score - low) / span, "lexical", hit.read)
        for hit in hits
        if span > 0 and hit.key not in begun
    }
