"""Memories that instruct their reader: left out, or put after all others, where the profile says so."""

from __future__ import annotations

from dataclasses import replace

from orion_recall.recall.pass_result import PassResult
from orion_recall.text.instructing import instructs_reader
from orion_recall.values import MemoryView, ReaderInstructions


def instructs(memory: MemoryView) -> bool:
    """Whether text or title of a memory has an instruction to whoever reads it."""
    return instructs_reader(memory.text) or instructs_reader(memory.title or "")


def with_instructing(result: PassResult, use: ReaderInstructions) -> PassResult:
    """The result with memories that instruct their reader held, or down; else as it is."""
    if use not in ("down", "hold"):
        return result
    instructing = {item.candidate.key for item in result.ranked if instructs(item.memory)}
    if not instructing:
        return result
    others = [item for item in result.ranked if item.candidate.key not in instructing]
    if use == "hold":
        for key in instructing:
            result.dropped.note("instructs_reader", key)
        return replace(result, ranked=tuple(others))
    down = [item for item in result.ranked if item.candidate.key in instructing]
    return replace(result, ranked=(*others, *down))
