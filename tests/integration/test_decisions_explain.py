"""Logged answers explained: from what their decisions kept, or by asking again; and the command that prints it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deploy_servers import run_program
from executor import until
from explained import CRANE, KEEPS, PLAIN, SHED, Asked, served

from orion_recall.decisions.log import DecisionLog
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.errors import SourceError
from orion_recall.recall.report.sentences import why_sentences
from orion_recall.serving.explain import ask_again, explain_decision
from orion_recall.settings import Settings

pytestmark = pytest.mark.slow


async def test_an_explanation_is_of_what_was_kept_or_of_asking_again(asked: Asked) -> None:
    await asked.stored(CRANE, {**CRANE, "id": "crane-again", "text": CRANE["text"].upper()}, SHED)
    count = "SELECT count(*) FROM recall_decisions"
    kept = await explain_decision(asked.pool, asked.service.settings, await asked.decided(profile=KEEPS))
    plain = await asked.decided()
    decisions = await asked.pool.fetchval(count)
    again = await explain_decision(asked.pool, asked.service.settings, plain)
    assert (kept.basis, again.basis) == ("kept", "again")
    assert "it gave the same memories in the same order" in again.notes
    assert await asked.pool.fetchval(count) == decisions, "asking again is no decision"

    def told(trace: Any) -> dict[str, tuple[Any, ...]]:
        return {
            one["id"]: (one["place"], one["kept"], one["score"], one["dropped"], one["sources"])
            for one in trace["candidates"]
        }

    assert told(kept.trace) == told(again.trace)
    for one in kept.trace["candidates"]:
        assert sum(part["share"] for part in one["parts"]) == pytest.approx(one["score"], abs=1e-6)
    assert next(why_sentences(kept.trace)).startswith(f"{plain.selected_ids[0]} is first")
    assert "gearbox" not in str(again.trace).lower().replace("gearbox by friday?", "")


def environment(settings: Settings) -> dict[str, str]:
    """What a command needs to find the service's record, copies and profiles."""
    return {
        "ORION_POSTGRES_DSN": settings.dsn or "",
        "ORION_DATA_DIR": str(settings.data_dir),
        "ORION_PROFILES_DIR": str(settings.profiles_dir),
        "ORION_DEFAULT_PROFILE": PLAIN,
        "ORION_TENANTS": "*",
    }


async def test_the_command_says_why_with_its_exit_code_and_counts_no_use(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    kept, plain = await asked.decided(profile=KEEPS, k=1), await asked.decided(k=1)
    env = environment(asked.service.settings) | {"COLUMNS": "160"}
    used = "SELECT sum(count) FROM memory_access WHERE tenant = $1"

    async def is_counted() -> bool:
        return await asked.pool.fetchval(used, asked.tenant) == 2

    await until(is_counted, "the use of both answers")
    code, out, err = await run_program(env, "decisions", "explain", plain.id, "--why-not", "shed")
    assert (code, out.startswith("cap: It was left out: the bundle was full")) == (0, True), (out, err)
    assert "kept no candidates: the question was asked again" in err
    code, out, _ = await run_program(env, "decisions", "explain", kept.id[:13], "--why-not", "shed", "--json")
    told = json.loads(out)
    assert (code, told["stage"], told["by_how_much"], told["unit"]) == (0, "cap", 1.0, "places")
    assert told["notes"] == ["from the candidates that the decision kept"]
    code, out, _ = await run_program(env, "decisions", "explain", plain.corr_id, "--json")
    told = json.loads(out)
    assert (code, told["basis"], told["selected_ids"]) == (0, "again", ["crane"])
    assert [one["id"] for one in told["trace"]["candidates"]] == ["crane", "shed"]
    code, out, err = await run_program(env, "decisions", "explain", kept.id)
    assert (code, "Why these came first" in out, "from the candidates" in err) == (0, True, True), err
    assert (CRANE["text"] in out, "searched by" in out) == (True, False), "a decision keeps no words of the search"
    assert "it is first" not in out
    assert await is_counted(), "to explain is no use"
    for arguments in (
        [plain.id, "--why-not", "nowhere"],
        [plain.id, "--tenant", "another", "--why-not", "shed"],
        ["00000000-0000-0000-0000-000000000000"],
    ):
        code, out, err = await run_program(env, "decisions", "explain", *arguments)
        assert (code, out, err.startswith("error: there is no ")) == (1, "", True), err
    code, out, err = await run_program(env, "decisions", "explain", plain.id[:13], "--tenant", "another")
    assert (code, out, plain.id in err) == (1, "", False), err


async def test_it_can_be_asked_again_as_of_its_decision(asked: Asked, tmp_path: Path) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(k=1)
    await asked.client.update([{"id": "crane", "text": "Nobody needs it any more."}], tenant=asked.tenant)
    await asked.client.update([{"id": "shed", "text": "The harbour crane needs a shed."}], tenant=asked.tenant)
    env = environment(asked.service.settings) | {"XDG_CACHE_HOME": str(tmp_path)}
    code, out, err = await run_program(env, "decisions", "explain", decision.id, "--json")
    now = json.loads(out)
    assert (code, now["selected_ids"]) == (0, ["shed"]), err
    code, out, err = await run_program(env, "decisions", "explain", decision.id, "--why-not", "shed")
    assert (code, out.startswith("kept_now: It was not in the logged answer;")) == (0, True), (out, err)
    code, out, err = await run_program(env, "decisions", "explain", decision.id, "--as-of", "decision", "--json")
    then = json.loads(out)
    assert (code, then["selected_ids"]) == (0, ["crane"]), err
    assert "on the data as the decision found them" in then["notes"][0]
    assert "it gave the same memories in the same order" in then["notes"]
    arguments = ("explain", decision.id, "--as-of", "decision", "--why-not", "shed", "--json")
    code, out, err = await run_program(env, "decisions", *arguments)
    assert (code, json.loads(out)["stage"]) == (0, "cap"), err


async def test_without_a_worker_the_command_opens_the_copies_itself(
    _service_engines: EmbeddedEngines, database: str, tmp_path: Path
) -> None:
    async with served(_service_engines.redis_url, database, tmp_path) as asked:
        await asked.stored(CRANE, SHED)
        decision = await asked.decided(k=1)
        env = environment(asked.service.settings)
    code, out, err = await run_program(env, "decisions", "explain", decision.id, "--why-not", "shed")
    assert (code, out.startswith("cap: ")) == (0, True), err


async def test_what_was_forgotten_is_not_asked_again(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(k=1)
    await asked.pool.execute(
        "UPDATE recall_decisions SET query = '', not_replayable = 'forgotten' WHERE id = $1", decision.id
    )
    (blanked,) = await DecisionLog(asked.pool).get(decision.id)
    told = await asked.lost(blanked, "shed")
    assert (told.stage, told.facts["why"] == "forgotten") == ("unknown", True)
    explained = await explain_decision(asked.pool, asked.service.settings, blanked)
    assert explained.basis == "none"
    assert [(one["id"], one["kept"]) for one in explained.trace["candidates"]] == [("crane", True)]
    with pytest.raises(SourceError, match="it cannot be asked again: forgotten"):
        await ask_again(asked.pool, asked.service.settings, blanked)


async def test_a_profile_whose_text_is_not_known_is_said_to_stand_in(asked: Asked) -> None:
    await asked.stored(CRANE, SHED)
    decision = await asked.decided(k=1)
    unknown = decision.model_copy(update={"profile_hash": "0" * 16})
    await asked.pool.execute(
        "UPDATE recall_decisions SET profile_hash = $2 WHERE id = $1", decision.id, unknown.profile_hash
    )
    explained = await explain_decision(asked.pool, asked.service.settings, unknown)
    assert explained.basis == "again"
    assert "the profile in use was taken instead" in explained.notes[-1]
    told = await asked.lost(unknown, "shed")
    assert (told.stage, "taken instead" in told.notes[-1]) == ("cap", True)
