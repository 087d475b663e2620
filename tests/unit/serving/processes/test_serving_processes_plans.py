"""What each of several workers has of its own."""

from __future__ import annotations

import socket
from pathlib import Path

from orion_recall.serving.processes.plans import (
    data_dir_of,
    log_file_of,
    parents_log_file,
    plans_of,
)
from orion_recall.settings import Settings


def test_the_first_worker_keeps_the_place_of_one_that_is_alone(tmp_path: Path) -> None:
    settings = Settings.read(data_dir=tmp_path, index_process="no")
    first, second = plans_of(settings, 2, {"ORION_REDIS_URL": "redis://bus"})
    of_both = {"ORION_REDIS_URL": "redis://bus", "ORION_INDEX_PROCESS": "no"}
    assert first.environment == {**of_both, "ORION_DATA_DIR": str(tmp_path)}
    assert second.environment == {**of_both, "ORION_DATA_DIR": str(tmp_path / "workers" / "2")}
    assert (first.name, second.name) == ("worker 1", "worker 2")
    assert second.data_dir == data_dir_of(tmp_path, 2)


def test_names_logs_and_ports_that_are_set_are_not_shared(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    settings = Settings.read(data_dir=tmp_path, instance="orion", log_file=tmp_path / "o.log", health_port=port)
    first, second = (plan.environment for plan in plans_of(settings, 2, {}))
    assert "ORION_INSTANCE" not in first
    assert second["ORION_INSTANCE"] == "orion-2"
    assert (first["ORION_LOG_FILE"], second["ORION_LOG_FILE"]) == (
        str(tmp_path / "o.log"),
        str(tmp_path / "o-2.log"),
    )
    assert (int(first["ORION_HEALTH_PORT"]), int(second["ORION_HEALTH_PORT"])) == (port, port + 1)


def test_the_parent_never_writes_to_a_log_of_a_worker() -> None:
    file = Path("/var/log/orion.log")
    assert parents_log_file(file) == Path("/var/log/orion-parent.log")
    assert parents_log_file(file) not in {log_file_of(file, number) for number in range(1, 65)}
    assert parents_log_file(None) is None
