"""A real Prometheus reads a worker's metrics, the alert rules and the queries of the board."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from executor import until

from orion_recall.client import RecallClient
from orion_recall.serving.service import Service
from tests.stand_ins.monitoring import RULES, alerts, board, board_queries, filled_in
from tests.stand_ins.ports import free_port

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")

# What has nothing to show until something is away or withheld.
SILENT = {"Fallbacks"}


@pytest.fixture
async def prometheus(service: Service, tmp_path: Path) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a Prometheus that reads the service's port and the rules."""
    assert service.observer.url is not None
    scraped = {
        "job_name": "workers",
        "static_configs": [{"targets": [service.observer.url.removeprefix("http://")]}],
    }
    settings: Mapping[str, Any] = {
        "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "500ms"},
        "rule_files": [str(RULES)],
        "scrape_configs": [scraped],
    }
    written, address = tmp_path / "prometheus.yaml", f"127.0.0.1:{free_port()}"
    written.write_text(yaml.safe_dump(settings), "utf-8")
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={written}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={address}",
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}", timeout=60) as client:

            async def is_ready() -> bool:
                assert process.returncode is None, "Prometheus has ended"
                try:
                    return (await client.get("/-/ready")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(is_ready, "Prometheus is ready")
            yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def result(client: httpx.AsyncClient, query: str) -> list[Any]:
    """The series that the query gives now."""
    answer = (await client.get("/api/v1/query", params={"query": query})).json()
    assert answer["status"] == "success", (query, answer)
    return answer["data"]["result"]


async def test_rules_are_evaluated_and_the_board_shows_a_worker_that_has_answered(
    prometheus: httpx.AsyncClient, client: RecallClient
) -> None:
    await client.recall("Where does Ana work?", profile="reflect.v1")

    async def was_read_twice() -> bool:
        found = await result(prometheus, "count_over_time(orion_recall_results_count[1m])")
        return bool(found) and float(found[0]["value"][1]) >= 2

    await until(was_read_twice, "the recall is seen twice")
    shown: set[str] = set()
    for title, target in board_queries(board()):
        if await result(prometheus, filled_in(target["expr"])):
            shown.add(title)
    assert {title for title, _ in board_queries(board())} - shown <= SILENT

    async def all_evaluated() -> bool:
        groups = (await prometheus.get("/api/v1/rules")).json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert {rule["name"] for rule in rules} == {rule["alert"] for rule in alerts()}
        assert not [rule for rule in rules if rule["health"] == "err"]
        return all(rule["health"] == "ok" for rule in rules)

    await until(all_evaluated, "every rule is evaluated")
    ringing = await result(prometheus, 'ALERTS{alertstate="firing"}')
    assert not [one for one in ringing if one["metric"]["severity"] == "critical"]
