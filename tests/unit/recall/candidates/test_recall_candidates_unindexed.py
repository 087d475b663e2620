"""What the index does not hold gets the parts that it lacks, and takes its place among what the index holds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from orion_recall.errors import ModelError, TransientSourceError
from orion_recall.interfaces import Source
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.candidates.unindexed import MOST_COMPARED, MOST_READ
from orion_recall.recall.pipeline import recall
from orion_recall.recall.report.explain import explained
from orion_recall.recall.search.all_sources import FallbackSource
from orion_recall.recall.types import Recalled, Sources
from orion_recall.sources.text_vectors import Nearness
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.values import MemoryView, Question, SourceName
from tests.samples.recall_fakes import NOW, FakeSource, hit, key, profile, query, sources, view

OWN = [view(f"own {place}", session_id="s1", beside=(key("own 0"),)) for place in range(120)]
OWN_HITS = [hit(f"own {place}", 0.6 - place / 300) for place in range(100)]
MAPPED = view("wiki:crane", "It lifts forty tonnes.", title="Harbour crane")


class Near:
    """Compares as it is told, by text; `silent` never embeds, `error` is raised instead."""

    def __init__(
        self, near: Mapping[str, Nearness], *, silent: bool = False, error: Exception | None = None
    ) -> None:
        self.near, self.silent, self.error = near, silent, error
        self.embedded: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str]) -> None:
        self.embedded.append(texts)
        if self.silent:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error

    async def nearness(self, question: Question, texts: Sequence[str]) -> Sequence[Nearness | None]:
        return [None if self.silent or self.error else self.near.get(text) for text in texts]


class Late:
    """The index has compared its own, the first of them best."""

    async def why_off(self) -> str | None:
        return None

    async def closeness(
        self, text: str, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        own = {one.key: 0.4 - place / 1000 for place, one in enumerate(OWN_HITS)}
        return {one: own[one] for one in keys if one in own}


NEAREST = Near({"Harbour crane: It lifts forty tonnes.": Nearness(0.8, 0.9)})


def of_others(*memories: MemoryView, score: float = 1.0) -> FakeSource:
    """A graph arm that brings memories which no index holds."""
    return FakeSource("rdf", [hit(one.id, score, read=lambda one=one: one) for one in memories])


def shipped_like(**fields: Any) -> Any:
    """Fusion and weights as in reflect.v1."""
    ranking = {"fusion": 0.15, "similarity": 0.0, "late": 1.0, "neighbour": 0.75, "session": 1.25, "recency": 0.05}
    weights = {"rdf": 0.1, "sql_timeline": 0.1}
    return profile(
        ranking=ranking,
        fusion={"method": "min_max", "weights": weights},
        rank_pool=60,
        max_total_items=20,
        **fields,
    )


def stores(tokens: TokenCounter, texts: Near | None, *others: FakeSource, **changes: Any) -> Sources:
    found_by_words = FakeSource("lexical", OWN_HITS[:40])
    arms = [FakeSource("vector", OWN_HITS), found_by_words, *others]
    return sources(tokens, arms, *OWN, **{"late_interaction": Late(), "texts": texts} | changes)


async def asked(made: Sources, timeout_s: float = 2.0, **fields: Any) -> Recalled:
    return await recall(
        query("How much does the crane lift?"), shipped_like(**fields), made, now=NOW, timeout_s=timeout_s
    )


def place_of(recalled: Recalled, memory: MemoryView) -> int:
    return [item.memory.id for item in recalled.ranked].index(memory.id) + 1


async def test_what_only_a_light_arm_could_find_comes_first_when_it_is_nearest(tokens: TokenCounter):
    made = await asked(stores(tokens, NEAREST, of_others(MAPPED)))
    assert place_of(made, MAPPED) == 1
    parts = made.ranked[0].parts
    assert (parts["similarity"], parts["late"]) == (0.8, 1.0)
    assert parts["fusion"] > 0.5, "its list weighs a tenth, and that is not held against it"
    assert "neighbour" not in parts, "nobody knows what is beside it"
    assert parts["session"] == pytest.approx((parts["fusion"] + parts["late"]) / 2), "a session of its own"
    assert made.late_interaction is not None and made.late_interaction.count == 61


async def test_what_is_far_from_the_question_stays_behind_however_well_its_own_arm_found_it(tokens: TokenCounter):
    far = Near({"Harbour crane: It lifts forty tonnes.": Nearness(0.05, 0.02)})
    made = await asked(stores(tokens, far, of_others(MAPPED, score=99.0)))
    assert place_of(made, MAPPED) > 50


async def test_the_made_parts_are_explained_as_all_others_are(tokens: TokenCounter):
    told = explained(await asked(stores(tokens, NEAREST, of_others(MAPPED))))["candidates"][0]
    assert told["id"] == MAPPED.id
    assert {"late", "fusion"} <= {part["part"] for part in told["parts"]}
    assert list(told["sources"]) == ["rdf"], "the dense search has not found it"


async def test_without_anything_from_elsewhere_nothing_is_compared(tokens: TokenCounter):
    texts = Near({})
    own_rows = FakeSource("sql_timeline", [hit(one.id, 0.5, read=lambda one=one: one) for one in OWN[:9]])
    made = await asked(stores(tokens, texts, own_rows))
    assert texts.embedded == []
    assert len(made.ranked) == 60


async def test_own_rows_that_the_index_holds_do_not_widen_the_pool(tokens: TokenCounter):
    rows = FakeSource("sql_timeline", [hit(one.id, 0.5, read=lambda one=one: one) for one in OWN[100:110]])
    made = await asked(stores(tokens, NEAREST, rows, of_others(MAPPED)))
    assert len(made.ranked) == 61
    assert place_of(made, MAPPED) == 1


@pytest.mark.parametrize("texts", [Near({}, silent=True), Near({}, error=ModelError("away")), None])
async def test_what_is_not_made_in_time_has_no_part_and_the_answer_is_whole(
    tokens: TokenCounter, texts: Near | None
):
    made = await asked(stores(tokens, texts, of_others(MAPPED)), source_timeout_ms=50)
    item = next(item for item in made.ranked if item.memory.id == MAPPED.id)
    assert not {"late", "similarity", "neighbour"} & item.parts.keys()
    assert place_of(made, MAPPED) > 1, "how its own arm found it says too little to put it first"
    assert made.outcome == "ok"


async def test_so_many_texts_of_one_recall_are_compared_and_the_first_of_every_list_are_among_them(
    tokens: TokenCounter,
):
    texts = Near({})
    many = [view(f"wiki:{place}", f"text {place}") for place in range(40)]
    graph = FakeSource(
        "rdf", [hit(one.id, 9.0 - place / 10, read=lambda one=one: one) for place, one in enumerate(many)]
    )
    row = view("tickets:1", "The crane is stuck.")
    timeline = FakeSource("sql_timeline", [hit(row.id, 0.1, read=lambda: row)])
    await asked(stores(tokens, texts, graph, timeline))
    (embedded,) = texts.embedded
    assert len(embedded) <= MOST_COMPARED
    assert {"text 0", "The crane is stuck."} <= set(embedded)


async def test_a_cosine_that_a_mapped_collection_gave_is_kept_and_not_made_anew(tokens: TokenCounter):
    note = view("notes:7", "The crane lifts forty tonnes.")
    near = Near({"The crane lifts forty tonnes.": Nearness(0.1, 0.9)})
    made = stores(tokens, near)
    found = [hit(note.id, 0.7, read=lambda: note), *OWN_HITS[:99]]
    arms: dict[SourceName, Source] = {**made.by_name, "vector": FakeSource("vector", found)}
    recalled = await recall(
        query("How much does the crane lift?"),
        shipped_like(),
        Sources(
            by_name=arms, tokens=tokens, readers=made.readers, late_interaction=made.late_interaction, texts=near
        ),
        now=NOW,
    )
    assert place_of(recalled, note) == 1
    assert recalled.ranked[0].parts["similarity"] == 0.7
    texts = Near({})
    await recall(
        query("How much does the crane lift?"),
        profile(),
        Sources(
            by_name=arms, tokens=tokens, readers=made.readers, late_interaction=made.late_interaction, texts=texts
        ),
        now=NOW,
    )
    assert texts.embedded == [], "without late interaction nothing is lacking"


async def test_while_the_index_is_away_nothing_is_compared(tokens: TokenCounter):
    texts = Near({})
    away = [FakeSource(name, errors=[TransientSourceError("no server")]) for name in ("vector", "lexical")]
    record = FakeSource("lexical", [hit(one.id, 1.0, read=lambda one=one: one) for one in OWN[:5]])
    made = sources(
        tokens,
        [*away, of_others(MAPPED)],
        *OWN,
        late_interaction=Late(),
        texts=texts,
        fallback=FallbackSource(source=record),
    )
    recalled = await asked(made)
    assert texts.embedded == []
    assert place_of(recalled, MAPPED) >= 1


@pytest.mark.parametrize(
    "error", [KeyError("text"), TypeError("no text"), OverflowError("year"), TransientSourceError("gone")]
)
async def test_a_hit_that_cannot_be_read_is_missing_and_the_others_are_answered(
    tokens: TokenCounter, error: Exception, caplog: pytest.LogCaptureFixture
):
    def unreadable() -> MemoryView:
        raise error

    graph = FakeSource("rdf", [hit("wiki:broken", 2.0, read=unreadable), hit(MAPPED.id, 1.0, read=lambda: MAPPED)])
    recalled = await asked(stores(tokens, NEAREST, graph))
    assert place_of(recalled, MAPPED) == 1
    assert recalled.selection.dropped["missing"] == 1
    assert "wiki:broken" not in caplog.text


def told_parts(recalled: Recalled) -> dict[str, float | None]:
    return {
        item.memory.id: item.parts.get("told") for item in recalled.ranked if item.memory.id.startswith("wiki:")
    }


async def test_times_that_texts_of_elsewhere_tell_are_read_where_the_question_is_about_such(tokens: TokenCounter):
    due = view("wiki:due", "The crane is inspected by 12 May 2026.", ts=NOW)
    arms = [FakeSource("vector", OWN_HITS), of_others(due, MAPPED)]
    used = profile(ranking={"fusion": 0.5, "told": 1.0, "recency": 0.0})
    made = sources(tokens, arms, *OWN)
    coming = await recall(query("Is anything coming up for the crane?"), used, made, now=NOW)
    assert told_parts(coming) == {"wiki:due": 0.5, MAPPED.id: 0.0}
    assert coming.ranked[0].memory.id == "wiki:due"
    other = await recall(query("How much does the crane lift?"), used, made, now=NOW)
    assert told_parts(other) == {"wiki:due": None, MAPPED.id: None}
    assert all(not item.memory.told for item in other.ranked)


async def test_a_text_of_elsewhere_that_was_not_read_for_times_has_no_such_part(tokens: TokenCounter):
    many = [view(f"wiki:{place}", f"Crane {place} is inspected on 12 May 2026.") for place in range(MOST_READ + 6)]
    made = sources(tokens, [FakeSource("vector", OWN_HITS[:3]), of_others(*many)], *OWN)
    used = profile(ranking={"fusion": 0.5, "told": 1.0, "recency": 0.0})
    recalled = await recall(query("Is anything coming up for the crane?"), used, made, now=NOW)
    parts = list(told_parts(recalled).values())
    assert (parts.count(0.5), parts.count(None)) == (MOST_READ, 6)
