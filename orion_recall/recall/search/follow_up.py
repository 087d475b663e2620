"""The follow-up search: memories whose titles the first hits name, and a second search with the names in them.

A question of several steps names the first thing and asks for the last. The passage about the first names the next:
where a memory has that name as its title, it is the next step (`links`); else the names in the first hits join a
second keyword search (`second_step`). Both are score parts; what has no weight in the profile is not searched for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from orion_recall.interfaces import Source, TitleFinder
from orion_recall.recall.candidates.filters import visible
from orion_recall.recall.candidates.fuse import fetch
from orion_recall.recall.search.all_sources import INDEX_SOURCES, or_else
from orion_recall.recall.types import Pairs, Pool
from orion_recall.scoring.candidates import Candidate
from orion_recall.text.names import names_in, title_names
from orion_recall.text.normal import whole_words, words
from orion_recall.values import MemoryView, Question, SearchRequest, SourceName

_LINKING, _MOST_LINKED, _FEW_LINKED = 5, 64, 20
_STEPPING, _MOST_NAMES, _MOST_STEPPED, _MOST_NEW = 2, 24, 100, 16


class _Lead(NamedTuple):
    """How strongly the first hits lead to a memory, and the source of it or of the hit that leads to it."""

    share: float
    source: SourceName
    read: Callable[[], MemoryView] | None = None


async def follow(pool: Pool) -> None:
    """What the first candidates lead to: what they name, and memories whose titles they have.

    `followed` are values in [0, 1] by part and key of what `kept`, best first, lead to in the scope of the
    requests; `further` the candidates that are new. An error or delay leads to none.
    """
    pool.followed, pool.further = await _followed(pool)
    read = await fetch([one.key for one in pool.further], pool.sources.readers, timeout_s=pool.left_s)
    pool.found.memories = {**pool.found.memories, **read}
    pool.kept = [*pool.kept, *visible(pool, pool.further)]
    pool.times.done("follow")


async def _followed(pool: Pool) -> tuple[Mapping[str, Mapping[int, float]], Sequence[Candidate]]:
    """The values, and the new candidates, whose memories are not read yet. One that the dense search has found
    keeps its cosine."""
    kept, question, requests = pool.kept, pool.question, pool.requests
    similarities, timeout_s = pool.similarities, pool.source_left_s
    well = {report.source for report in pool.found.reports if report.status in ("ok", "empty")}
    asked = [requests[name] for name in INDEX_SOURCES if name in well and name in requests]
    if not asked or not kept or timeout_s <= 0:
        return {}, ()
    looking: dict[str, Callable[[], Coroutine[Any, Any, Mapping[int, _Lead]]]] = {}
    ranking, titles, by_name = pool.profile.ranking, pool.sources.titles, pool.sources.by_name
    tenant = asked[0].scope.tenant
    if titles and ranking.links > 0 and await or_else(titles.has_titles(tenant), False, timeout_s):
        looking["links"] = partial(_linked, kept, question, asked[0], titles)
    if ranking.second_step > 0 and "lexical" in well and "lexical" in requests:
        looking["second_step"] = partial(_stepped, kept, question, requests["lexical"], by_name["lexical"])
    nothing: Mapping[int, _Lead] = {}

    async def found_by(look: Callable[[], Coroutine[Any, Any, Mapping[int, _Lead]]]) -> Mapping[int, _Lead]:
        return await or_else(look(), nothing, timeout_s)  # begun here: a task may be cancelled before it starts

    found = await asyncio.gather(*map(found_by, looking.values()))
    parts: dict[str, Mapping[int, float]] = {}
    further: dict[int, Candidate] = {}
    known = {candidate.key for candidate, _ in kept}
    for name, leads in zip(looking, found, strict=True):
        if not leads:
            continue
        parts[name] = {key: lead.share for key, lead in leads.items()}
        for _, key in sorted([(-lead.share, key) for key, lead in leads.items() if key not in known])[:_MOST_NEW]:
            lead = leads[key]
            near: dict[SourceName, float] = {"vector": similarities[key]} if key in similarities else {}
            new = Candidate(key=key, scores=near, read=lead.read, best_source=lead.source, led_by="follow_up")
            further.setdefault(key, new)
    return parts, tuple(further.values())


async def _linked(
    kept: Pairs, question: Question, request: SearchRequest, titles: TitleFinder
) -> Mapping[int, _Lead]:
    """The memories whose titles are in the question or in one of the first hits. Of up to 20 that a text names each
    has the whole of the text's own score, of more each has less: a list of names leads nowhere."""
    best = max((candidate.fused for candidate, _ in kept), default=0.0) or 1.0
    first = kept[0][0].best_source
    naming: list[tuple[float, SourceName, frozenset[str], int | None]] = [
        (1.0, first, names_in(question.text), None)
    ]
    for candidate, memory in kept[:_LINKING]:
        own = title_names(memory.title) if memory.title else ()
        labels = [" ".join(whole_words(label)) for label in memory.entities]
        named = names_in(memory.text).union(labels).difference(own, ("",))
        naming.append((candidate.fused / best, candidate.best_source, named, candidate.key))
    wanted = sorted(frozenset[str]().union(*(named for _, _, named, _ in naming)))
    names = frozenset(wanted)
    here = {  # the index does not know titles in external stores
        candidate.key: called
        for candidate, memory in kept
        if candidate.read is not None and memory.title and not names.isdisjoint(called := title_names(memory.title))
    }
    found = {**here, **await titles.titled(wanted, request.scope, _MOST_LINKED)}
    leads: dict[int, _Lead] = {}
    for gain, source, named, itself in naming:
        targets = [key for key, called in found.items() if key != itself and not named.isdisjoint(called)]
        for key in targets:
            share = gain * min(1.0, _FEW_LINKED / len(targets))
            if key not in leads or share > leads[key].share:
                leads[key] = _Lead(share, source)
    return leads


async def _stepped(kept: Pairs, question: Question, request: SearchRequest, lexical: Source) -> Mapping[int, _Lead]:
    """The keyword search for the question together with the new names in the first hits, which hold all of these
    and gain nothing."""
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
        hit.key: _Lead((hit.score - low) / span, "lexical", hit.read)
        for hit in hits
        if span > 0 and hit.key not in begun
    }
