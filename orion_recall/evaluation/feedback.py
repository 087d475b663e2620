"""Judged queries made of feedback: used memories are evidence, and only shown memories are judged."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, Literal, cast

from orion_recall.decisions.feedback import JudgedRecall
from orion_recall.errors import EvaluationError

LeftOut = Literal["no_decision", "text_not_kept", "nothing_used", "used_is_gone"]
"""Why feedback gives no query: its decision is not in the log, or of another tenant; the query's text was cut or
hashed; no shown memory was used; the used memories are deleted, or are in an external store."""

FILE_NAME = "judged.jsonl"
_HASH = re.compile(r"blake2b:[0-9a-f]{32}")


@dataclass(slots=True, kw_only=True)
class Converted:
    """Counts of a conversion: feedback messages, the recalls they are about, queries made, and reasons for none.

    `not_shown` counts ids that were judged without having been shown, `gone` shown memories that are deleted.
    """

    messages: int = 0
    recalls: int = 0
    queries: int = 0
    used: int = 0
    wrong: int = 0
    passed_over: int = 0
    not_shown: int = 0
    gone: int = 0
    left_out: Counter[LeftOut] = field(default_factory=Counter[LeftOut])

    def add(self, recall: JudgedRecall | None, messages: int) -> dict[str, Any] | None:
        """The query as a line of the file, counted; None when the feedback gives none."""
        self.messages += messages
        if recall is None:
            self.left_out["no_decision"] += messages
            return None
        self.recalls += 1
        verdicts = _verdicts(recall)
        self.not_shown += len(verdicts.keys() - {*recall.shown})
        shown = [name for name in recall.shown if name in recall.live]
        self.gone += len(recall.shown) - len(shown)
        used = [name for name in shown if verdicts.get(name) == "used"]
        if (why := _left_out(recall, verdicts, used)) is not None:
            self.left_out[why] += 1
            return None
        wrong = [name for name in shown if verdicts.get(name) == "wrong"]
        self.queries += 1
        self.used += len(used)
        self.wrong += len(wrong)
        self.passed_over += len(shown) - len(used) - len(wrong)
        return _line(recall, shown, used, wrong)


def _verdicts(recall: JudgedRecall) -> dict[str, Literal["used", "wrong"]]:
    """The last verdict on every id; an id that one message calls used and wrong is wrong."""
    verdicts: dict[str, Literal["used", "wrong"]] = {}
    for said in recall.feedback:
        verdicts |= dict.fromkeys(said.used, "used")
        verdicts |= dict.fromkeys(said.wrong, "wrong")
    return verdicts


def _left_out(
    recall: JudgedRecall, verdicts: dict[str, Literal["used", "wrong"]], used: list[str]
) -> LeftOut | None:
    text = recall.query
    # A cut or hashed text would search for other words.
    if not text.strip() or _HASH.fullmatch(text) or len(text) < recall.query_chars:
        return "text_not_kept"
    if used:
        return None
    return "used_is_gone" if any(verdicts.get(name) == "used" for name in recall.shown) else "nothing_used"


def _line(recall: JudgedRecall, shown: list[str], used: list[str], wrong: list[str]) -> dict[str, Any]:
    """A line for `read_queries`; correlation_id and profile are there to join it with the decision log."""
    line: dict[str, Any] = {
        "query_id": recall.decision_id,
        "conversation_id": recall.tenant,
        "query": recall.query,
        "query_date": recall.asked_at.astimezone(UTC).isoformat(),
        "category": recall.query_class,
        "evidence": used,
        "wrong": wrong,
        "shown": shown,
        "scope": recall.scope,
        "session_id": recall.session_id,
        "user_id": recall.user_id,
        "intent": recall.intent,
        "correlation_id": recall.correlation_id,
        "profile": recall.profile,
    }
    return {name: value for name, value in line.items() if value is not None}


def add_judged(path: Path, line: Mapping[str, Any]) -> bool:
    """Append the line, unless its `query_id` is in the file already: then False.

    The file is made when it is absent, for its owner alone. Several programs may add to it at once. EvaluationError
    where it cannot be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            ends_whole = True
            for known in file:
                if _query_id(known) == line["query_id"]:
                    return False
                ends_whole = known.endswith(b"\n")
            text = json.dumps(line, ensure_ascii=False) + "\n"
            file.write(("" if ends_whole else "\n").encode() + text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror or type(error).__name__}") from error
    return True


def _query_id(line: bytes) -> object:
    """The id of a line; None where it has none, which is for whoever reads the file to say."""
    try:
        told: Any = json.loads(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", told).get("query_id") if isinstance(told, dict) else None
