"""Review files: sampled decisions for people to judge, a row for each memory shown; and back as judged queries.

The column `judgement` is empty in the sample. A person writes `relevant` or `irrelevant` into it (or yes and no, 1
and 0); what is left empty was not judged.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from pydantic import BaseModel, ConfigDict, ValidationError

from orion_recall.contracts import describe
from orion_recall.decisions.feedback import FeedbackMessage, JudgedRecall
from orion_recall.decisions.sample import SampledDecision, ShownMemory
from orion_recall.errors import EvaluationError, SettingsError

_RELEVANT: Final = frozenset(("relevant", "yes", "y", "1", "true"))
_IRRELEVANT: Final = frozenset(("irrelevant", "no", "n", "0", "false"))
# A spreadsheet would take a cell that begins with one of these for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "'")


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    judgement: str = ""
    query: str
    memory: str = ""
    rank: int | None = None
    memory_id: str = ""
    profile: str
    asked_at: datetime
    outcome: str = ""
    category: str = ""
    tenant: str
    scope: str = ""
    session_id: str = ""
    user_id: str = ""
    intent: str = ""
    decision_id: str


COLUMNS: Final = tuple(_Row.model_fields)


def is_csv(path: Path) -> bool:
    """Whether the file is CSV by its name, or JSON lines; SettingsError for another ending."""
    if path.suffix not in (".csv", ".jsonl"):
        raise SettingsError(f"{path}: a review file ends in .csv or .jsonl")
    return path.suffix == ".csv"


def write_review(lines: TextIO, sample: Sequence[SampledDecision], *, as_csv: bool) -> int:
    """Writes the rows of the decisions, and gives their number; one without a memory has one row."""
    rows = [row.model_dump(mode="json") for one in sample for row in _rows(one)]
    if as_csv:
        writer = csv.DictWriter(lines, COLUMNS)
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    else:
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return len(rows)


def read_review(path: Path) -> list[JudgedRecall]:
    """The decisions of a review file with the judgements as feedback, in the file's order.

    Decisions without any judgement are left out. EvaluationError names the line that cannot be used.
    """
    found: dict[str, list[_Row]] = {}
    for number, fields in _csv_lines(path) if is_csv(path) else _json_lines(path):
        try:
            row = _Row.model_validate(fields)
        except ValidationError as error:
            raise EvaluationError(f"{path}:{number}: {describe(error)}") from error
        if _verdict(row) is None:
            raise EvaluationError(
                f"{path}:{number}: judgement: {row.judgement[:60]!r} is neither relevant nor irrelevant, nor empty"
            )
        found.setdefault(row.decision_id, []).append(row)
    if not found:
        raise EvaluationError(f"{path}: there is no row in it")
    return [_judged(rows) for rows in found.values() if any(_verdict(row) for row in rows)]


def _rows(one: SampledDecision) -> list[_Row]:
    shown: Sequence[tuple[int | None, ShownMemory]] = [*enumerate(one.shown, 1)]
    return [
        _Row(
            query=one.query,
            memory=memory.text or "",
            rank=rank,
            memory_id=memory.id,
            profile=one.profile,
            asked_at=one.asked_at.astimezone(UTC),
            outcome=one.outcome,
            category=one.query_class or "",
            tenant=one.tenant,
            scope=one.scope or "",
            session_id=one.session_id or "",
            user_id=one.user_id or "",
            intent=one.intent or "",
            decision_id=one.decision_id,
        )
        for rank, memory in shown or [(None, ShownMemory(id="", text=None))]
    ]


def _judged(rows: Sequence[_Row]) -> JudgedRecall:
    first, shown = rows[0], [row for row in rows if row.memory_id]
    return JudgedRecall(
        decision_id=first.decision_id,
        correlation_id="",
        tenant=first.tenant,
        profile=first.profile,
        query=first.query,
        query_chars=len(first.query),
        asked_at=first.asked_at,
        scope=first.scope or None,
        session_id=first.session_id or None,
        user_id=first.user_id or None,
        intent=first.intent or None,
        query_class=first.category or None,
        shown=tuple(row.memory_id for row in shown),
        live=frozenset(row.memory_id for row in shown if row.memory),
        feedback=(
            FeedbackMessage(
                used=tuple(row.memory_id for row in shown if _verdict(row) == "relevant"),
                wrong=tuple(row.memory_id for row in shown if _verdict(row) == "irrelevant"),
            ),
        ),
    )


def _verdict(row: _Row) -> str | None:
    """The judgement in one word, "" where there is none; None for one that is not understood."""
    said = row.judgement.strip().casefold()
    if said in _RELEVANT:
        return "relevant"
    return "irrelevant" if said in _IRRELEVANT else "" if not said else None


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _uncell(text: str | None) -> str | None:
    return None if not text else text.removeprefix("'")


def _csv_lines(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    def lines(file: TextIO) -> Iterator[tuple[int, Mapping[str, object]]]:
        reader = csv.DictReader(file)
        if missing := {"judgement", "decision_id", "memory_id"} - {*(reader.fieldnames or ())}:
            raise EvaluationError(f"{path}: there is no column {min(missing)!r}")
        for row in reader:
            told = {name: _uncell(value) for name, value in row.items() if name in COLUMNS}
            yield reader.line_num, {name: value for name, value in told.items() if value is not None}

    return _opened(path, lines)


def _json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    def lines(file: TextIO) -> Iterator[tuple[int, Mapping[str, object]]]:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise EvaluationError(f"{path}:{number}: no JSON: {error}") from error

    return _opened(path, lines)


def _opened(
    path: Path, lines: Callable[[TextIO], Iterator[tuple[int, Mapping[str, object]]]]
) -> Iterator[tuple[int, Mapping[str, object]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from lines(file)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise EvaluationError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
