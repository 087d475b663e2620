from __future__ import annotations

import json
import logging

import pytest

from orion_recall.telemetry import JsonLines, continue_trace, log_to_stderr

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("orion_recall.serving.worker", logging.WARNING, __file__, 1, message, args, None)
    made.__dict__.update(extra)
    return made


def test_a_trace_that_came_with_a_message_goes_on():
    continued = continue_trace({"traceparent": PARENT, "tracestate": "vendor=1"})
    assert continued.trace_id == TRACE_ID
    assert continued.trace["traceparent"].startswith(f"00-{TRACE_ID}-")
    assert continued.trace["traceparent"] != PARENT
    assert continued.trace["tracestate"] == "vendor=1"
    continued.span.end()


@pytest.mark.parametrize(
    "carrier",
    [
        None, {}, {"traceparent": "broken"}, {"traceparent": 7}, {"traceparent": None},
        {"traceparent": f"00-{'0' * 32}-00f067aa0ba902b7-01"}, {"tracestate": ["a"], "other": {}},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_trace_begins_a_new_one(carrier: dict[str, object] | None):
    first, second = continue_trace(carrier), continue_trace(carrier)
    assert len(first.trace_id) == 32
    assert int(first.trace_id, 16) != 0
    assert len({first.trace_id, second.trace_id, TRACE_ID}) == 3


def test_a_log_record_is_one_line_of_json_with_its_fields():
    text = JsonLines().format(record("recall of %s\nnext", "Ana", fields={"outcome": "ok", "latency_ms": 1.5}))
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "recall of Ana\nnext"
    assert (line["level"], line["logger"]) == ("warning", "orion_recall.serving.worker")
    assert (line["outcome"], line["latency_ms"]) == ("ok", 1.5)
    assert line["time"].endswith("Z")


def test_logs_go_to_standard_error_only(package_logger: logging.Logger, capsys: pytest.CaptureFixture[str]):
    log_to_stderr("info")
    logging.getLogger("orion_recall.worker").info("here", extra={"fields": {"n": 1}})
    logging.getLogger("orion_recall.worker").debug("not here")
    written = capsys.readouterr()
    assert written.out == ""
    assert [json.loads(line)["message"] for line in written.err.splitlines()] == ["here"]
    assert package_logger.propagate is False
