"""Judged pairs of memories, and how well they are recognised: precision, recall, and each one that is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from orion_recall.contracts import Identifier
from orion_recall.errors import EvaluationError
from orion_recall.evaluation.dataset import read_lines
from orion_recall.memory.succession.decide import SUCCEEDS
from orion_recall.memory.succession.find import Found
from orion_recall.values import Memory

Kind = Literal["replaced", "part", "trap"]
"""`replaced`: the older memory holds no more; `part`: arguable, right and not looked for; `trap`: a look-alike."""


class _PairLine(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    old: Identifier
    new: Identifier
    kind: Kind
    why: str = ""
    conversation_id: Identifier | None = None


class Pair(NamedTuple):
    """The older and the newer memory, by id, in a conversation."""

    conversation: str
    old: str
    new: str


class Judgement(NamedTuple):
    """What somebody who read both says of a pair, and why."""

    kind: Kind
    why: str


class Recognised(NamedTuple):
    """A recognised succession, with what was judged of its pair: None where it was not."""

    pair: Pair
    confidence: float
    reason: str
    kind: Kind | None

    @property
    def is_right(self) -> bool:
        """Whether it was judged to be one, in whole or in part."""
        return self.kind in ("replaced", "part")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The recognised successions, surest first, and the judged ones that were missed, with why they are one."""

    recognised: Sequence[Recognised]
    missed: Mapping[Pair, str]
    judged: int

    @property
    def right(self) -> int:
        """How many recognised ones are right, in whole or in part."""
        return sum(one.is_right for one in self.recognised)

    @property
    def precision(self) -> float | None:
        """The share of the recognised ones that is right; None of none."""
        return self.right / len(self.recognised) if self.recognised else None

    @property
    def recall(self) -> float | None:
        """The share of what replaces that was recognised; None of none."""
        return (self.judged - len(self.missed)) / self.judged if self.judged else None


def read_pairs(path: Path, memories: Iterable[Memory]) -> dict[Pair, Judgement]:
    """The judged pairs of a file. A pair without `conversation_id` is looked for by its ids.

    EvaluationError for a pair whose memories are not there, or in several conversations.
    """
    there = [(memory.tenant, memory.id) for memory in memories]
    known, counts = set(there), Counter(name for _, name in there)
    of_id = {name: conversation for conversation, name in there}
    found: dict[Pair, Judgement] = {}
    for line in read_lines(_PairLine, path):
        if line.conversation_id is None and counts[line.old] > 1:
            raise EvaluationError(
                f"{path}: {line.old!r} is in several conversations: give the pair's conversation_id"
            )
        conversation = line.conversation_id or of_id.get(line.old, "")
        for name in (line.old, line.new):
            if (conversation, name) not in known:
                raise EvaluationError(f"{path}: there is no memory {name!r} in the conversation {conversation!r}")
        found[Pair(conversation, line.old, line.new)] = Judgement(line.kind, line.why)
    if not found:
        raise EvaluationError(f"{path}: there is no pair in it")
    return found


def measured(
    found: Iterable[tuple[str, Found]], judged: Mapping[Pair, Judgement], *, least: float = SUCCEEDS
) -> Measured:
    """The figures of what was found, from that confidence up. A recognised pair that nobody judged is wrong."""
    kept = [(Pair(tenant, one.old, one.new), one) for tenant, one in found if one.confidence >= least]
    recognised = [
        Recognised(pair, one.confidence, one.reason, judged[pair].kind if pair in judged else None)
        for pair, one in sorted(kept, key=lambda item: (-item[1].confidence, item[0]))
    ]
    wanted = {pair: judgement.why for pair, judgement in judged.items() if judgement.kind == "replaced"}
    hit = {one.pair for one in recognised}
    return Measured(
        recognised=recognised,
        missed={pair: why for pair, why in wanted.items() if pair not in hit},
        judged=len(wanted),
    )
