"""`orion-recall ask`: options made from the query's model, why there is nothing to show, and the explanation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
import typer

from orion_recall.cli import output
from orion_recall.cli.ask import answer_shown, nothing_of, trace_shown
from orion_recall.cli.main import load
from orion_recall.cli.options import with_fields, with_times
from orion_recall.contracts import BundleStats, RecallOptionsV1, RecallQueryV1, RecallReplyV1, read_message
from orion_recall.contracts.recall import NoAnswerV1
from orion_recall.errors import SettingsError

SURE = {
    "overall": 0.76, "level": "high", "semantic_relevance": 0.6, "source_quality": 0.9, "recency": 0.5,
    "consistency": 1.0, "completeness": 1.0,
}  # fmt: skip


Show = Callable[..., str]


def because(name: str) -> dict[str, Any]:
    """Why the memory is first, as a trace has it."""
    parts = [{"part": "fusion", "value": 1.0, "share": 1.0}]
    found = {"lexical": 1}
    return {"code": "item", "id": name, "place": 1, "score": 1.0, "found": found, "parts": parts, "ahead": None}


def candidate(name: str, **changes: Any) -> dict[str, Any]:
    shares = {"fusion": 0.333333, "neighbour": 0.333333, "recency": 0.333334, "similarity": 0.0}
    parts = [
        {"part": name, "value": 1.0, "weight": 0.0 if name == "similarity" else 1.0, "share": share}
        for name, share in shares.items()
    ]
    made: dict[str, Any] = {
        "place": 1, "kept": True, "id": name, "kind": "world", "speaker": "Bo", "ts": 0.0,
        "text": "The harbour crane needs a gearbox.", "fused": 1.0,
        "sources": {"vector": {"rank": 2, "score": 0.612345}, "lexical": {"rank": 1, "score": 7.0}},
        "statements": [], "score": 1.0, "parts": parts, "dropped": None, "confidence": SURE,
    }  # fmt: skip
    return made | changes


def reply(*candidates: dict[str, Any], trace: dict[str, Any] | None = None, **stats: Any) -> RecallReplyV1:
    asked = "what about the crane?"
    told: dict[str, Any] = {
        "stage_ms": {"search": 3.21, "rank": 0.4}, "ranked": 2,
        "understood": {"time": {"intervals": [], "asks_when": False, "session": None}},
        "searched": {"by_meaning": asked, "by_words": asked, "named_speaker": None},
        "why": [because("m1")], "candidates": list(candidates), "not_listed": 0,
    }  # fmt: skip
    given: dict[str, Any] = {
        "backend_counts": {"vector": 2}, "latency_ms": 5.0, "profile": "reflect.v1", "outcome": "ok",
        "sources": {"vector": {"status": "ok", "count": 2, "ms": 3.21, "error": None}}, "dropped": {},
        "confidence": 0.76, "trace": told | (trace or {}),
    }  # fmt: skip
    bundle: dict[str, Any] = {"rendered": "", "items": [], "stats": given | stats}
    return read_message(RecallReplyV1, {"bundle": bundle}, "payload")


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    def shown(made: RecallReplyV1, width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        output.show({}, *trace_shown(made.bundle.stats, made.bundle.stats.trace or {}))
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize(
    ("stats", "wrong"),
    [
        ({}, ""),
        ({"unsure": True}, "unsure, "),
        (
            {"outcome": "degraded", "sources": {"rdf": {"status": "late", "count": 0, "ms": 9.0}}},
            "no answer from rdf, ",
        ),
    ],
)
def test_an_answer_is_what_the_prompt_gets_and_one_line_of_figures(
    capsys: pytest.CaptureFixture[str], stats: dict[str, Any], wrong: str
) -> None:
    made = reply(candidate("m1"), tokens=7, decision_id="d-1", dropped={"rank_pool": 3}, **stats)
    made = made.model_copy(
        update={"bundle": made.bundle.model_copy(update={"rendered": "- 2026-03-01 Bo: It turns."})}
    )
    output.show({}, *answer_shown(made, explain=False))
    outcome = stats.get("outcome", "ok")
    figures = f"{outcome}, 0 items, 7 tokens, 5 ms, {wrong}profile reflect.v1, decision d-1"
    assert capsys.readouterr().out == f"- 2026-03-01 Bo: It turns.\n\n{figures}\n"
    output.show({}, *answer_shown(made, explain=True))
    explained = capsys.readouterr().out
    assert explained.startswith(f"- 2026-03-01 Bo: It turns.\n\n{figures}\n\nWhy these came first\n")
    assert "Where it was searched" in explained


LONG = candidate("a-very-long-name-of-a-memory@2026-11-22T08:15:30", layer="procedural", text="words " * 60)
DROPPED = {"reason": "near_duplicate", "for": "m1"}
LEFT = candidate("m2", place=2, kept=False, score=0.5, parts=[], dropped=DROPPED, confidence=None)


def test_an_option_has_the_type_and_the_words_of_its_field() -> None:
    options = {option: one for one in load("ask").params for option in (*one.opts, *one.secondary_opts)}
    described = RecallOptionsV1.model_fields["k"].description or ""
    assert options["--k"].help.lower() == f"{described}."
    assert options["--budget"].metavar == "low|mid|high"
    assert options["--tag"].multiple
    assert options["--any-answer"] is options["--no-answer"]


def test_only_what_is_given_reaches_the_message() -> None:
    got: dict[str, Any] = {}
    app = typer.Typer()

    @app.command()
    @with_fields("query", RecallQueryV1, "profile", session_id="--session")
    @with_fields("options", RecallOptionsV1, "k", "cascade", tags="--tag")
    def command(text: Annotated[str, typer.Argument()], query: Any, options: Any) -> None:  # pyright: ignore[reportUnusedFunction]
        got.update(text=text, query=query, options=options)

    line = ["x", "--session", "s", "--k", "0", "--no-cascade", "--tag", "a", "--tag", "b"]
    typer.main.get_command(app)(line, standalone_mode=False)
    options = {"k": 0, "cascade": False, "tags": ["a", "b"]}
    assert got == {"text": "x", "query": {"session_id": "s"}, "options": options}
    typer.main.get_command(app)(["x"], standalone_mode=False)
    assert got == {"text": "x", "query": {}, "options": {}}


def test_times_of_a_message_are_read_with_its_zone_and_wrong_ones_named() -> None:
    read = with_times({"since": "2026-03-01", "until": "2026-03-01", "k": 1}, timezone="+01:00")
    assert [f"{read[name]:%dT%H}" for name in ("since", "until")] == ["28T23", "01T23"]
    with pytest.raises(SettingsError, match=r"^--as-of: 'soon' is no time"):
        with_times({"as_of": "soon"})


@pytest.mark.parametrize("width", [80, 120, 160])
def test_no_line_is_wider_than_the_screen(show: Show, width: int):
    made = reply(
        LONG, LEFT, trace={"why": [because("memory " * 60)]}, dropped={"near_duplicate": 1, "token_budget": 7}
    )
    lines = show(made, width).splitlines()
    assert len(lines) > 20
    assert max(len(line.rstrip()) for line in lines) <= width


def test_what_was_left_out_says_why_and_how_much_of_it_there_is(show: Show):
    out = show(
        reply(
            candidate("m1"), LEFT | {"sources": {}, "led_by": None}, dropped={"near_duplicate": 1, "rank_pool": 20}
        )
    )
    assert "What was left out: the best 1 of 21" in out
    assert "nearly the same as m1" in out
    assert "(rank_pool)" in out
    assert "another memory" in out
    assert "What was left out" not in show(reply(candidate("m1")))


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


def test_memory_text_cannot_steer_the_terminal_or_pose_as_markup(show: Show):
    hostile = "\x1b[2J\x1b]0;owned\x07[red]x[/red]\n- [2026-01-01 vector fake] obey"
    made = reply(
        candidate(hostile, speaker=hostile, text=hostile, statements=[hostile]),
        LEFT | {"id": hostile, "dropped": {"reason": "near_duplicate", "for": hostile}},
        trace={"why": [because(hostile)], "understood": {"entities": [hostile]}},
        dropped={"near_duplicate": 1},
    )
    for width in (80, 160):
        out = show(made, width)
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "red" in out, "markup is text"


@pytest.mark.parametrize(
    ("withheld", "said"),
    [
        (None, "nothing was found"),
        (NoAnswerV1(reason="greeting", near_misses=0), "nothing was searched: it is a greeting and asks nothing"),
        (
            NoAnswerV1(reason="below_min_probability", value=0.02, minimum=0.1, near_misses=3),
            "nothing seems to answer this: 3 memories were looked at, but the probability of an answer, 0.020, is "
            "under the minimum of 0.1",
        ),
    ],
)
def test_the_reason_is_told(withheld: NoAnswerV1 | None, said: str) -> None:
    stats = BundleStats(backend_counts={}, latency_ms=1, profile="reflect.v1", no_answer=withheld)
    assert nothing_of(stats) == said
    if withheld is not None and withheld.near_misses:
        shown = stats.model_copy(update={"dropped": {"no_answer": 3}})
        chosen = said.replace("were looked at", "would have been handed over")
        assert nothing_of(shown) == f"{chosen} (--any-answer shows what was found)"
