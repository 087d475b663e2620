"""The CPU of our own pure stages, each alone, on the inputs that real questions lead to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

from orion_recall.bus.envelope import decode, encode
from orion_recall.bus.group_reader import Entry
from orion_recall.contracts import DECISION_KIND, QUERY_KIND, REPLY_KIND, RecallQueryV1, count_unknown, read_message
from orion_recall.models.tokenizer import TokenCounter
from orion_recall.recall.bundle.lines import Selection
from orion_recall.recall.bundle.select import select
from orion_recall.recall.candidates.fuse import fuse
from orion_recall.recall.confidence.answer import AnswerConfidence
from orion_recall.recall.confidence.factors import confidences
from orion_recall.recall.pass_result import Dropped
from orion_recall.recall.ranking.score import said_once, score_candidates
from orion_recall.recall.report import decision as decisions
from orion_recall.recall.report.reply import reply, reply_json
from orion_recall.recall.types import Recalled
from orion_recall.recall.understand.question import understand
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.scoring.part_values import QueryFacts
from orion_recall.values import SourceName
from tests.bench.recorded_inputs import Asked, Inputs

DECODE, UNDERSTAND = "decode, validate", "understand"
RANK, SELECT, WRITE = "fuse, score, near-duplicates", "select, render", "reply and decision JSON, envelopes"

_MAX_BYTES = 8_388_608
_ENTRY_ID = "1760000000000-0"
_LATENCY_MS = 12.345
_SOURCE = {"name": "orion-recall", "node": "bench", "instance": "bench-1"}
_STAGES: tuple[str, ...] = ("understand", "search", "fuse", "fetch", "rank", "select")


class Stages:
    """The stages as functions of one question. Each is given what the stage before it gave.

    `reply_bytes` is the mean size of a reply's envelope.
    """

    def __init__(self, inputs: Inputs, tokens: TokenCounter) -> None:
        self._inputs, self._tokens = inputs, tokens
        self._weights = cast("dict[SourceName, float]", inputs.profile.fusion.weights.model_dump())
        self._ranked = [self._rank(one) for one in inputs.asked]
        self._recalled = [self._select(one, ranked) for one, ranked in zip(inputs.asked, self._ranked, strict=True)]
        written = [len(self._write(one, found)) for one, found in zip(inputs.asked, self._recalled, strict=True)]
        self.reply_bytes = sum(written) // len(written)

    def measure(self) -> dict[str, float]:
        """CPU milliseconds a question in every stage: of this thread, in which nothing else runs meanwhile."""
        asked = self._inputs.asked
        return {
            DECODE: self._cpu_ms(lambda place: _decode(asked[place])),
            UNDERSTAND: self._cpu_ms(lambda place: self._understand(asked[place])),
            RANK: self._cpu_ms(lambda place: self._rank(asked[place])),
            SELECT: self._cpu_ms(lambda place: self._select(asked[place], self._ranked[place])),
            WRITE: self._cpu_ms(lambda place: self._write(asked[place], self._recalled[place])),
        }

    def _cpu_ms(self, stage: Callable[[int], object]) -> float:
        places = range(len(self._inputs.asked))
        began = time.thread_time()
        for place in places:
            stage(place)
        return (time.thread_time() - began) * 1000 / len(places)

    def _understand(self, asked: Asked) -> object:
        return understand(asked.query, self._inputs.profile, now=asked.now, speakers=self._inputs.speakers)

    def _rank(self, asked: Asked) -> list[ScoredCandidate]:
        profile = self._inputs.profile
        candidates = fuse(
            asked.reports,
            method=profile.fusion.method,
            k=profile.fusion.k,
            weights=self._weights,
            limit=len(asked.pool),
            with_text=0,
        )
        pairs = [
            (candidate, memory)
            for candidate in candidates
            if (memory := asked.memories.get(candidate.key) or (candidate.read and candidate.read())) is not None
        ]
        similarities = {
            hit.key: hit.score for report in asked.reports if report.source == "vector" for hit in report.hits
        }
        scored = score_candidates(
            pairs,
            profile,
            QueryFacts(now=asked.now, named_speaker=asked.understanding.named_speaker, similarities=similarities),
        )
        return said_once(scored, Dropped())

    def _select(self, asked: Asked, ranked: list[ScoredCandidate]) -> Recalled:
        selection = select(ranked, asked.understanding.question.terms, self._inputs.caps, self._tokens)
        recalled = Recalled(
            outcome="ok",
            scope=asked.scope,
            reports=tuple(asked.reports),
            ranked=tuple(ranked),
            selection=selection,
            stage_ms=dict.fromkeys(_STAGES, 1.234),
            confidence=self._confidence(asked, ranked, selection),
        )
        assert recalled.rendered
        return recalled

    def _confidence(self, asked: Asked, ranked: list[ScoredCandidate], selection: Selection) -> AnswerConfidence:
        kept = [item.scored for item in selection.items]
        sure = confidences(kept, ranked, asked.understanding.question, self._inputs.profile)
        return AnswerConfidence(items=sure, overall=sure[kept[0].candidate.key].overall)

    def _write(self, asked: Asked, recalled: Recalled) -> bytes:
        """The reply's envelope; the decision's is made too."""
        profile = self._inputs.profile.profile
        decided = decisions.RequestFacts(
            decision_id="0" * 36,
            corr_id="0" * 32,
            entry_id=_ENTRY_ID,
            query=asked.query,
            tenant=asked.scope.tenant,
            profile=profile,
            profile_requested=profile,
            profile_hash="0" * 16,
            worker="bench-1",
        )
        answer = reply(asked.query, recalled, latency_ms=_LATENCY_MS, profile=profile, decision_id="0" * 36)
        decision = decisions.decision(decided, outcome="ok", latency_ms=_LATENCY_MS, recalled=recalled)
        written = encode(REPLY_KIND, reply_json(answer), correlation_id="0" * 32, source=_SOURCE)
        encode(DECISION_KIND, decision.model_dump_json().encode(), correlation_id="0" * 32, source=_SOURCE)
        return written


def _decode(asked: Asked) -> None:
    entry = Entry(id=_ENTRY_ID, fields={b"envelope": asked.envelope})
    received = decode(entry, kind=QUERY_KIND, max_bytes=_MAX_BYTES)
    assert received.error is None
    read_message(RecallQueryV1, received.payload, "payload")
    count_unknown(RecallQueryV1, received.payload)
