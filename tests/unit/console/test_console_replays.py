from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from orion_recall.console.access import LOCAL
from orion_recall.console.profiles import read_report, shown_report
from orion_recall.console.rendering import templates
from orion_recall.contracts import RecallQueryV1
from orion_recall.decisions.comparison import Answer
from orion_recall.decisions.memories import Judged
from orion_recall.evaluation.replay.report import Gate, as_json, summed_up
from orion_recall.evaluation.replay.run import Choice, LoggedQuery, Replayed, ReplayPlan, ReplayRun

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PLAN = ReplayPlan(choice=Choice())


def answer(ids: str) -> Answer:
    return Answer(ids=tuple(ids), outcome="ok" if ids else "empty", tokens=10, confidence=None, ms=20.0)


def replayed(name: str, logged: str, tried: str, *, used: str = "", text: str = "Who?") -> Replayed:
    query = LoggedQuery(
        id=name,
        tenant="acme",
        profile="reflect.v1",
        profile_hash="h",
        query_class="factual",
        query=RecallQueryV1(fragment=text),
        clock=NOON.timestamp(),
        began=NOON,
        read_at={},
        build={},
        answer=answer(logged),
        judged=Judged(used=frozenset(used)),
    )
    return Replayed(logged=query, control=answer(logged), tried=answer(tried), why=None)


def saved(
    folder: Path, *queries: Replayed, under: str | None = "overlap@2=.9", least: int = 1, plan: ReplayPlan = PLAN
) -> Path:
    run = ReplayRun(matching=9, queries=list(queries))
    summary = summed_up(run, k=2)
    gate = Gate.of(under, None, 2, min_queries=least) if under else None
    verdict = gate.verdict(run, summary, plan) if gate is not None else None
    path = folder / "mine.json"
    told = as_json(run, summary, verdict, plan, redact=False) | {"made_at": (NOON + timedelta(days=1)).isoformat()}
    path.write_text(json.dumps(told), "utf-8")
    return path


def page(path: Path) -> str:
    return (
        templates()
        .get_template("replay.html")
        .render(
            access=LOCAL,
            form_token="",
            here="/replays/mine.json",
            has_tokens=False,
            name=path.name,
            **shown_report(read_report(path)),
        )
    )


def test_a_saved_replay_is_shown_with_its_verdict_and_lost_memories_of_use_first(tmp_path: Path) -> None:
    html = page(
        saved(
            tmp_path,
            replayed("d-most-changed", "ab", "xy"),
            replayed("d-of-use", "ab", "bx", used="a", text="<b>Who</b>?"),
            replayed("d-same", "ab", "ab"),
        )
    )
    assert "<strong>Failed</strong> the gate." in html
    assert "overlap@2=0.9" in html
    assert html.index("/decisions/d-of-use") < html.index("/decisions/d-most-changed")
    assert "/decisions/d-same" not in html
    assert "&lt;b&gt;Who&lt;/b&gt;?" in html
    assert "The tried profile against the control" in html


def test_a_replay_that_passes_or_cannot_be_judged_says_so(tmp_path: Path) -> None:
    same = replayed("d-same", "ab", "ab")
    assert "<strong>Passed</strong> the gate." in page(saved(tmp_path, same))
    assert "It cannot be judged:" in page(saved(tmp_path, same, least=50))
    assert "every answer is the same" in page(saved(tmp_path, same))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"queries": 1}', '{"queries": "many"}'])
def test_another_file_is_refused_with_what_is_wrong_in_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text, "utf-8")
    with pytest.raises(HTTPException, match=r"mine\.json is no"):
        read_report(path)
