from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from orion_recall.cli.ask.explain import show_explained
from orion_recall.contracts import RecallReplyV1, read_message

SURE = {
    "overall": 0.76, "level": "high", "semantic_relevance": 0.6, "source_quality": 0.9, "recency": 0.5,
    "consistency": 1.0, "completeness": 1.0,
}  # fmt: skip


Show = Callable[..., str]


def candidate(name: str, **changes: Any) -> dict[str, Any]:
    shares = {"fusion": 0.333333, "neighbour": 0.333333, "recency": 0.333334, "similarity": 0.0}
    made: dict[str, Any] = {
        "place": 1,
        "kept": True,
        "id": name,
        "kind": "world",
        "speaker": "Bo",
        "ts": 0.0,
        "text": "The harbour crane needs a gearbox.",
        "fused": 1.0,
        "sources": {"vector": {"rank": 2, "score": 0.612345}, "lexical": {"rank": 1, "score": 7.0}},
        "statements": [],
        "score": 1.0,
        "parts": [
            {"part": name, "value": 1.0, "weight": 0.0 if name == "similarity" else 1.0, "share": share}
            for name, share in shares.items()
        ],
        "dropped": None,
        "confidence": SURE,
    }
    return made | changes


def why(name: str, **changes: Any) -> dict[str, Any]:
    """The entry of a first item."""
    entry: dict[str, Any] = {"code": "item", "id": name, "place": 1, "score": 1.0, "found": {"lexical": 1}}
    return entry | {"parts": [{"part": "fusion", "share": 0.333333}], "ahead": None} | changes


def reply(*candidates: dict[str, Any], trace: dict[str, Any] | None = None, **stats: Any) -> RecallReplyV1:
    told: dict[str, Any] = {
        "stage_ms": {"search": 3.21, "rank": 0.4},
        "ranked": 2,
        "understood": {"time": {"intervals": [], "asks_when": False, "session": None}},
        "searched": {
            "by_meaning": "what about the crane?",
            "by_words": "what about the crane?",
            "named_speaker": None,
        },
        "why": [why("m1")],
        "candidates": list(candidates),
        "not_listed": 0,
    }
    given: dict[str, Any] = {
        "backend_counts": {"vector": 2},
        "latency_ms": 5.0,
        "profile": "reflect.v1",
        "outcome": "ok",
        "sources": {"vector": {"status": "ok", "count": 2, "ms": 3.21, "error": None}},
        "dropped": {},
        "confidence": 0.76,
        "trace": told | (trace or {}),
    }
    bundle: dict[str, Any] = {"rendered": "", "items": [], "stats": given | stats}
    return read_message(RecallReplyV1, {"bundle": bundle}, "payload")


def shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], made: RecallReplyV1, width: int = 80
) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    show_explained(made)
    return capsys.readouterr().out


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    return partial(shown, monkeypatch, capsys)


LONG = candidate("a-very-long-name-of-a-memory@2026-11-22T08:15:30", layer="procedural", text="words " * 60)
LEFT = candidate(
    "m2",
    place=2,
    kept=False,
    score=0.5,
    parts=[],
    dropped={"reason": "near_duplicate", "for": "m1"},
    confidence=None,
)


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_line_is_wider_than_the_screen(show: Show, width: int):
    made = reply(
        LONG, LEFT, trace={"why": [why("because " * 60)]}, dropped={"near_duplicate": 1, "token_budget": 7}
    )
    lines = show(made, width).splitlines()
    assert len(lines) > 20
    assert max(len(line.rstrip()) for line in lines) <= width


def test_the_shares_that_are_printed_add_up_to_the_score_that_is(show: Show):
    out = show(reply(candidate("m1")), 160)
    (line,) = [line for line in out.splitlines() if line.startswith("1  m1")]
    shares = [float(share) for share in re.findall(r"(\.\d{3}) (?:fusion|neighbour|recency)", line)]
    assert "1.000" in line
    assert round(sum(shares), 3) == 1.0
    assert "similarity" not in line, "what weighs nothing makes nothing of the score"
    assert "words 1 (7), meaning 2 (0.612)" in line
    assert "Bo: The harbour crane needs a gearbox." in line


def test_the_confidence_is_explained_by_its_factors(show: Show):
    out = " ".join(show(reply(candidate("m1"))).split())
    assert (
        "How sure it is: 0.76 (high), that of m1: relevance 0.60, source quality 0.90, recency 0.50, "
        "consistency 1.00, completeness 1.00." in out
    )
    assert "How sure it is: 0.50." in show(reply(candidate("m1"), confidence=0.5))


def test_what_was_left_out_says_why_and_how_much_of_it_there_is(show: Show):
    out = show(reply(candidate("m1"), LEFT, dropped={"near_duplicate": 1, "rank_pool": 20}))
    assert "What was left out: the best 1 of 21" in out
    assert "nearly the same as m1" in out
    assert "20 not among the best of the fusion (rank_pool)" in out
    assert "What was left out" not in show(reply(candidate("m1")))


def test_what_no_search_found_says_what_led_to_it(show: Show):
    for led_by, words in (
        ("succession", "older one"),
        ("follow_up", "the first hits"),
        (None, "another memory"),
    ):
        out = show(reply(candidate("m1"), LEFT | {"sources": {}, "led_by": led_by}, dropped={"near_duplicate": 1}))
        assert words in out


def test_a_reason_that_has_no_words_is_said_as_it_is(show: Show):
    odd = LEFT | {"dropped": {"reason": "too_purple", "for": None}}
    assert "too purple" in show(reply(odd, dropped={"too_purple": 1}))


def test_what_was_understood_is_shown_whoever_understood_it(show: Show):
    interval = {
        "from": "2026-11-21T00:00:00Z",
        "until": "2026-11-22T12:30:00Z",
        "kind": "relative",
        "words": "lately",
    }
    open_end = {"from": None, "until": "2026-11-22T00:00:00Z", "kind": "open", "words": "until today"}
    time: dict[str, Any] = {"intervals": [interval, open_end], "asks_when": True, "session": "first"}
    trace: dict[str, Any] = {
        "understood": {
            "time": time,
            "asks_for": ["name", "number"],
            "class": "temporal",
            "class_words": ["when", "last week"],
            "entities": [{"name": "Fjord Labs", "kind": "thing"}, {"name": "Ana"}],
            "nothing": None,
        },
        "searched": {"by_meaning": "a", "by_words": "b", "named_speaker": "Ana"},
    }
    out = show(reply(candidate("m1"), trace=trace), 120)
    assert '"lately": 2026-11-21 up to 2026-11-22 12:30, UTC (relative)' in out
    assert '"until today": any time up to 2026-11-22, UTC (open)' in out
    for words in (
        "names                Ana",
        "the first one",
        "asks for             a time and a name (of a person, a place or a thing) and a number",
        "temporal",
    ):
        assert words in out
    assert 'class                temporal: "when", "last week"' in out
    assert "entities             Fjord Labs (thing), Ana" in out
    assert "nothing" not in out


def test_the_way_through_the_layers_is_shown(show: Show):
    step: dict[str, Any] = {"depth": 0, "hits": 2, "confidence": 0.4, "ms": 1.25, "late": [], "not_asked": None}
    way: dict[str, Any] = {
        "trigger": "confidence_below_threshold",
        "ended": "deadline",
        "threshold": 0.5,
        "path": [
            step | {"layer": "semantic", "late": ["vector"]},
            step | {"layer": "graph", "depth": 1, "confidence": None, "not_asked": "no_time"},
        ],
    }
    out = show(reply(candidate("m1", layer="semantic"), trace={"cascade": way}))
    assert "too late: vector" in out
    assert "not asked: no time was left" in out
    assert "The confidence 0.400 of semantic is under the threshold 0.5." in out
    assert "It ended because no time was left for graph; the surest layer had 0.400." in out


def test_nothing_found_and_nothing_handed_over_are_said(show: Show):
    nothing = reply(trace={"why": [], "candidates": []}, confidence=None)
    assert "Nothing was found that may be shown." in show(nothing)
    withheld = reply(
        LEFT,
        trace={"why": []},
        no_answer={"reason": "below_min_confidence", "value": 0.3, "minimum": 0.5, "near_misses": 4},
    )
    out = show(withheld, 120)
    assert (
        "Nothing is returned: the confidence of 0.300 is under the minimum of 0.5. 4 memories were looked at."
        in out
    )
    assert "What was ranked best" in out


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("Europe/Amsterdam", '"September": 2026-09-01 up to 2026-10-01, Europe/Amsterdam (period)'),
        ("+02:00", '"September": 2026-09-01 up to 2026-10-01, +02:00 (period)'),
        ("Nowhere/At", '"September": 2026-08-31 22:00 up to 2026-09-30 22:00, UTC (period)'),
    ],
)
def test_times_are_told_in_the_zone_of_the_question(show: Show, zone: str, told: str):
    interval = {
        "from": "2026-08-31T22:00:00Z",
        "until": "2026-09-30T22:00:00Z",
        "kind": "period",
        "words": "September",
    }
    out = show(reply(candidate("m1"), trace={"understood": {"time": {"intervals": [interval]}}, "zone": zone}), 120)
    assert told in out


def test_where_nothing_was_searched_no_search_is_told(show: Show):
    interval = {"from": "2026-11-21T00:00:00Z", "until": None, "kind": "relative", "words": "today"}
    for intervals in ([interval], []):
        greeting = reply(
            trace={"why": [], "understood": {"time": {"intervals": intervals}, "language": "english"}},
            sources={},
            no_answer={"reason": "greeting", "near_misses": 0},
        )
        out = show(greeting)
        assert "it is a greeting" in out
        assert "english" in out
        assert "searched by" not in out
        assert not re.search(r"^ *time\b", out, re.MULTILINE)
        assert "hits" not in out


def test_class_people_and_entities_are_told_in_words(show: Show):
    understood: dict[str, Any] = {
        "time": {"intervals": [], "asks_when": False, "session": None},
        "class": "planning",
        "class_words": ["how should"],
        "language": "english",
        "people": ["Bo"],
        "entities": [{"name": "Fjord Labs", "kind": "capitalised"}, {"name": "Bo", "kind": "known"}],
    }
    out = show(reply(candidate("m1"), trace={"understood": understood, "strategy": "planning"}), 120)
    assert 'planning: "how should" (the profile has a strategy for it, "planning")' in out
    assert "Fjord Labs (capitalised), Bo (known)" in out
    assert re.search(r"people +Bo *\n", out)
    assert "has a strategy" not in show(reply(candidate("m1"), trace={"understood": understood}), 120)


def test_names_that_are_not_searched_by_meaning_are_said(show: Show):
    trace: dict[str, Any] = {
        "understood": {"time": {"intervals": []}, "people": ["Ana Miles", "Bo"]},
        "searched": {"by_meaning": "did tell Bo", "by_words": "did Ana tell Bo", "named_speaker": None},
    }
    told = show(reply(candidate("m1"), trace=trace), width=140)
    assert "did tell Bo (without Ana Miles: names are searched by words)" in told


def test_memory_text_cannot_steer_the_terminal_or_pose_as_markup(show: Show):
    hostile = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\n- [2026-01-01 vector fake] obey"
    made = reply(
        candidate(hostile, speaker=hostile, text=hostile, statements=[hostile]),
        LEFT | {"id": hostile, "dropped": {"reason": "near_duplicate", "for": hostile}},
        trace={"why": [why(hostile, statements=[hostile])], "understood": {"entities": [hostile]}},
        dropped={"near_duplicate": 1},
    )
    for width in (80, 160):
        out = show(made, width)
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "red" in out, "markup is text"


def test_a_trace_of_another_version_is_no_crash(show: Show):
    assert "Where it was searched" in show(reply(trace={"candidates": [], "why": []}, sources=None, trace_=1))
    bare = read_message(
        RecallReplyV1,
        {
            "bundle": {
                "rendered": "",
                "items": [],
                "stats": {"backend_counts": {}, "latency_ms": 1.0, "profile": "p"},
            }
        },
        "payload",
    )
    assert "Nothing was found that may be shown." in show(bare)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"speakers": ["Odd Berg"]},
            "it decides the order; where nothing that Odd Berg said seems to be about it, there is no answer",
        ),
        (
            {"speakers": ["Odd Berg"]},
            "what Odd Berg said is ranked by itself, what others said among everything",
        ),
        ({"speakers": ["Odd Berg"], "then": True}, "the kiln: it decides the order and leaves nothing out"),
        ({}, "the kiln: a memory must have a word of it, as nobody of that name speaks"),
        ({"only": False}, "what was said by Odd first; others may answer, too"),
        ({"role": True}, "nobody speaks: what reads as a report of it, else all that was found"),
        ({"about": ""}, "only what was said by Odd, or what reads as a report of it"),
    ],
)
def test_what_a_topic_of_somebodys_words_does_is_said(show: Show, changes: dict[str, Any], told: str):
    nobody: list[str] = []
    said: dict[str, Any] = {"name": "Odd", "speakers": nobody, "about": "the kiln", "only": True, "then": False}
    said |= changes
    known = {"time": {"intervals": nobody, "asks_when": False, "session": None}, "said_by": said}
    out = " ".join(show(reply(candidate("m1"), trace={"understood": known}), 200).split())
    assert told in out
    assert ("in the time asked about" in out) == said["then"]
    assert "by Odd about" not in out
