"""The folder deploy: services, alerts, threats."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from docs.tools.metrics import prometheus_names
from docs.tools.page import read_page
from orion_recall.settings import Settings
from tests.stand_ins.monitoring import RULE_TESTS, RULES, alerts, board, board_queries, labels_by, selectors

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILES = (DEPLOY / "Dockerfile", DEPLOY / "oxigraph/Dockerfile")
# Beside the interpreter, where pip puts programs.
PROGRAMS = Path(sys.executable).parent
Json = dict[str, Any]


def _run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in arguments],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def passwords(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("deploy") / ".env"
    done = _run("sh", DEPLOY / "passwords.sh", file)
    assert done.returncode == 0, done.stderr
    return file


def _compose(env_file: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return _run(
        PROGRAMS / "docker-compose",
        *("--file", DEPLOY / "compose.yaml", "--env-file", env_file, "--profile", "*"),
        *arguments,
        **environment,
    )


@pytest.fixture(scope="module")
def composed(passwords: Path) -> Json:
    """The file as Compose itself understands it, checked against the specification's schema on the way."""
    done = _compose(passwords, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return cast("Json", json.loads(done.stdout))


@pytest.fixture(scope="module")
def services(composed: Json) -> dict[str, Json]:
    return composed["services"]


def test_without_a_password_nothing_starts(passwords: Path, tmp_path: Path) -> None:
    lines = passwords.read_text("utf-8").splitlines()
    for line in lines:
        name, file = line.partition("=")[0], tmp_path / "env"
        # Empty: what is refused then is refused where it is not there at all.
        file.write_text("\n".join([*(other for other in lines if other != line), f"{name}="]), "utf-8")
        done = _compose(file, "config", "--quiet")
        assert done.returncode != 0, name
        assert name in done.stderr


def test_every_service_is_closed_in(services: dict[str, Json]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"cap_add", "privileged", "pid", "ipc", "network_mode", "devices"} & set(service), name
        limits = service["deploy"]["resources"]["limits"]
        assert {"cpus", "memory", "pids"} <= set(limits), name


def test_only_the_bus_is_published_and_only_on_loopback(services: dict[str, Json]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert set(published) == {"redis"}
    assert [port["host_ip"] for port in published["redis"]] == ["127.0.0.1"]


def test_the_stores_are_out_of_reach_of_the_bus_and_of_the_world(composed: Json) -> None:
    assert composed["networks"]["stores"]["internal"] is True
    services = composed["services"]
    for name in ("postgres", "qdrant", "oxigraph", "roles", "migrate"):
        assert set(services[name]["networks"]) == {"stores"}, name
    assert set(services["redis"]["networks"]) == {"bus"}


def test_images_are_pinned(services: dict[str, Json]) -> None:
    for name, service in services.items():
        _, _, tag = service["image"].rpartition(":")
        assert re.match(r"v?\d+\.\d+", tag), f"{name}: {service['image']}"
    assert services["worker"]["image"].endswith(f":{_project()['version']}")


def test_the_schema_is_there_before_a_worker_and_the_roles_before_the_schema(services: dict[str, Json]) -> None:
    def waits_for(name: str) -> dict[str, str]:
        return {other: how["condition"] for other, how in services[name].get("depends_on", {}).items()}

    done, healthy = "service_completed_successfully", "service_healthy"
    assert waits_for("roles") == {"postgres": healthy}
    assert waits_for("migrate") == {"roles": done}
    assert waits_for("worker") == {"migrate": done, "redis": healthy, "qdrant": healthy, "oxigraph": healthy}


def test_each_logs_in_as_the_least_that_will_do(services: dict[str, Json]) -> None:
    users = {
        name: (
            re.sub(r".*//(\w+):.*", r"\1", service["environment"].get("ORION_REDIS_URL", "")),
            re.sub(r".*//(\w+):.*", r"\1", service["environment"].get("ORION_POSTGRES_DSN", "")),
        )
        for name, service in services.items()
        if service["image"].startswith("orion-recall:")
    }
    assert users == {
        "worker": ("worker", "orion_worker"),
        "tools": ("operator", "orion_worker"),
        "migrate": ("", "orion_owner"),
    }


def test_no_service_is_told_a_password_that_it_does_not_need(services: dict[str, Json], passwords: Path) -> None:
    secrets = dict(line.split("=") for line in passwords.read_text("utf-8").splitlines())
    told = {
        name: {secret for secret, value in secrets.items() if value in json.dumps(service)}
        for name, service in services.items()
    }
    roles = {"POSTGRES_OWNER_PASSWORD", "POSTGRES_WORKER_PASSWORD", "POSTGRES_ANALYST_PASSWORD"}
    assert told == {
        "worker": {"REDIS_WORKER_PASSWORD", "POSTGRES_WORKER_PASSWORD", "QDRANT_API_KEY"},
        "tools": {
            "REDIS_OPERATOR_PASSWORD",
            "POSTGRES_WORKER_PASSWORD",
            "POSTGRES_ANALYST_PASSWORD",
            "QDRANT_API_KEY",
        },
        "migrate": {"POSTGRES_OWNER_PASSWORD"},
        "roles": {"POSTGRES_SUPERUSER_PASSWORD"} | roles,
        "postgres": {"POSTGRES_SUPERUSER_PASSWORD"},
        "redis": {name for name in secrets if name.startswith("REDIS_")},
        "qdrant": {"QDRANT_API_KEY"},
        "oxigraph": set(),
    }


def test_every_setting_in_these_files_is_one(services: dict[str, Json]) -> None:
    known = {f"ORION_{name.upper()}" for name in Settings.model_fields}
    # Bus and workers must agree on the prefix, so compose.yaml gives it to both.
    given = {
        name
        for service in services.values()
        for name in service.get("environment", {})
        if name.startswith("ORION_")
    }
    for file in DOCKERFILES:
        given |= set(re.findall(r"\b(ORION_[A-Z_]+)=", file.read_text("utf-8")))
    assert {"ORION_REDIS_URL", "ORION_POSTGRES_DSN", "ORION_DATA_DIR"} <= given
    assert given - known == set()


def test_passwords_are_long_different_and_their_owners_alone(passwords: Path) -> None:
    values = [line.partition("=")[2] for line in passwords.read_text("utf-8").splitlines()]
    assert len(set(values)) == len(values) >= 9
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in values)
    assert passwords.stat().st_mode & 0o777 == 0o600
    before = passwords.read_bytes()
    again = _run("sh", DEPLOY / "passwords.sh", passwords)
    assert again.returncode == 1
    assert "is there already" in again.stderr
    assert passwords.read_bytes() == before


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_the_linter_of_dockerfiles_has_nothing_to_say(file: Path) -> None:
    done = _run(PROGRAMS / "hadolint", "--no-color", file)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def _instructions(file: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", file.read_text("utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(name.upper(), rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.parent.name)
def test_an_image_is_pinned_unprivileged_and_knows_whether_it_is_well(file: Path) -> None:
    instructions = _instructions(file)
    names = [name for name, _ in instructions]
    assert all(re.match(r"\S+:\d+\.\d+\.\d+", rest) for name, rest in instructions if name == "FROM")
    users = [rest for name, rest in instructions if name == "USER"]
    assert [re.fullmatch(r"[1-9]\d+:[1-9]\d+", user) is not None for user in users] == [True]
    # Nothing runs as root once the user has been changed.
    assert "RUN" not in names[names.index("USER") :]
    assert names.count("HEALTHCHECK") == 1
    assert not {"ADD", "EXPOSE", "ARG", "VOLUME"} & set(names)
    assert not re.search(r"(?i)password|secret|token=|api_key", file.read_text("utf-8"))
    entry = next(rest for name, rest in instructions if name == "ENTRYPOINT")
    assert entry.startswith("["), "the program gets the signals itself"


def _project() -> Json:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_bus_trusts_the_script_and_the_users_of_this_folder() -> None:
    compose = cast("Json", yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8")))
    assert compose["services"]["redis"]["entrypoint"][:2] == ["sh", "/etc/valkey/start.sh"]
    users = [line.split()[1] for line in (DEPLOY / "redis/users.acl").read_text("utf-8").splitlines()]
    assert users == ["default", "health", "worker", "client", "operator", "analyst"]


RUNBOOKS = "docs/pages/how-to/runbooks.md"
# What Prometheus adds to each series of a worker.
ADDED = {"instance"}

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (Prometheus) is not installed"
)


def promtool(*arguments: str | Path) -> None:
    """Runs it; it must find nothing wrong."""
    found = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    page, rules = read_page(ROOT / RUNBOOKS), alerts()
    assert {rule["annotations"]["runbook_url"] for rule in rules} == {
        f"{RUNBOOKS}#{rule['alert'].lower()}" for rule in rules
    }
    assert page.anchors >= {rule["alert"].lower() for rule in rules}
    assert {one for one in page.anchors if one.startswith("orionrecall")} == {
        rule["alert"].lower() for rule in rules
    }


def test_every_alert_and_every_query_of_the_board_reads_metrics_and_labels_that_there_are() -> None:
    names = prometheus_names()
    queries = [(rule["alert"], rule["expr"]) for rule in alerts()]
    queries += [(title, target["expr"]) for title, target in board_queries(board())]
    for where, query in queries:
        read = selectors(query)
        assert read, where
        for one in read:
            assert one.metric in names, where
            assert one.labels <= names[one.metric] | ADDED, (where, one)
            assert (labels_by(query) or set()) <= names[one.metric] | ADDED, (where, one)


@needs_promtool
def test_the_rules_are_taken_by_promtool_and_ring_when_they_should() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULE_TESTS)


def test_every_defence_names_a_test_that_there_is() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "deploy/THREATS.md").read_text("utf-8")))
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(named) > 20
    assert named - there == set()
