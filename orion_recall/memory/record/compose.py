"""Composes the stored form of a memory from a message's form: hashes, names and statements; and patches."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

from pydantic import ValidationError

from orion_recall.contracts import MemoryV1, MemoryVerdictV1, describe
from orion_recall.errors import InvalidMessage
from orion_recall.memory.extraction.light import Passage, light
from orion_recall.text.normal import is_question, one_line, storable, storable_json, text_hash
from orion_recall.values import LAST_S, JsonValue, Memory

_TEXTS = ("title", "speaker", "session_id", "node_id", "user_id", "agent_id", "run_id", "source", "uri")
# A longer title is a sentence, and no name of anything.
_MAX_TITLE_WORDS = 8
# Also of a hash: a guess may become another. It never hides a memory, which is found as this one, too.
KIND_WHEN_NONE_IS_GIVEN = "experience"


def compose(message: MemoryV1, default_tenant: str) -> Memory:
    """The memory with its hashes, entities and statements; every text in it can be stored. InvalidMessage."""
    try:
        hashed = content_hash(message)
    except ValueError as error:
        raise InvalidMessage("metadata: NaN and infinity are no JSON numbers") from error
    text = storable(message.text)
    if not one_line(text):
        raise InvalidMessage("text: there is nothing to be seen in it")
    if message.id in message.supersedes:
        raise InvalidMessage("supersedes: a memory cannot take its own place")
    if message.occurred_at and message.occurred_until and message.occurred_until < message.occurred_at:
        raise InvalidMessage("occurred_until: it ends before it begins (occurred_at)")
    sent: dict[str, str | None] = {name: getattr(message, name) for name in _TEXTS}
    texts: dict[str, Any] = {name: value and storable(value) for name, value in sent.items()}
    title, speaker = texts["title"], texts["speaker"]
    given = unique_names(map(storable, message.entities))
    occurred_at, mentioned_at = _seconds(message.occurred_at), _seconds(message.mentioned_at)
    at = mentioned_at if occurred_at is None else occurred_at
    found = light(Passage(text=text, speaker=speaker, known=tuple(known_names(given, title)), at=at))
    guess = None
    if message.kind is None:
        guess = infer_kind(text, title=title, is_talk=speaker is not None and message.session_id is not None)
    return Memory(
        tenant=storable(message.tenant or default_tenant),
        id=storable(message.id),
        text=text,
        kind=message.kind or KIND_WHEN_NONE_IS_GIVEN,
        guessed_kind=guess.kind if guess and guess.kind != KIND_WHEN_NONE_IS_GIVEN else None,
        kind_confidence=guess.confidence if guess else None,
        text_hash=text_hash(text),
        content_hash=hashed,
        occurred_at=occurred_at,
        occurred_until=_seconds(message.occurred_until),
        mentioned_at=mentioned_at,
        tags=unique_names(map(storable, message.tags)),
        entities=unique_names([*found.entities, *given]),
        statements=found.statements,
        times=found.times,
        metadata=cast("dict[str, JsonValue]", storable_json(message.metadata)),
        confidence=message.confidence,
        given_entities=given,
        supersedes=unique_names(map(storable, message.supersedes)),
        lacks_context=found.lacks_context and message.session_id is not None,
        **texts,
    )


def known_names(given: Sequence[str], title: str | None) -> list[str]:
    """What is recognised in a text in lower case too: the entities that were given, and a title that is a name."""
    return [*given, title] if title is not None and len(title.split()) <= _MAX_TITLE_WORDS else [*given]


def as_message(memory: Memory) -> MemoryV1:
    """The memory as it would be sent to be stored: composed again it says the same."""
    values: dict[str, Any] = {name: getattr(memory, name) for name in MemoryV1.model_fields}
    times = {name: values[name] for name in ("occurred_at", "occurred_until", "mentioned_at")}
    values |= {name: datetime.fromtimestamp(at, UTC) for name, at in times.items() if at is not None}
    values |= {"entities": memory.given_entities, "metadata": dict(memory.metadata)}
    if memory.kind_confidence is not None:
        values["kind"] = None
    return MemoryV1(**values)


def content_hash(message: MemoryV1) -> str:
    """SHA-256 over all that the sender gave but id and tenant, in one canonical form."""
    content = message.model_dump(mode="json", exclude={"id", "tenant"})
    content["kind"] = content["kind"] or KIND_WHEN_NONE_IS_GIVEN
    canonical = json.dumps(storable_json(content), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else min(moment.timestamp(), LAST_S)  # its fractions do not survive as a float


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names without repetitions that differ in case only, and without empty ones."""
    return tuple({name.casefold(): name for name in reversed([*names]) if name.strip()}.values())[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A patch of one memory: fields of `MemoryV1` by name, None for those to be cleared."""

    id: str
    changes: Mapping[str, Any]
    expected_version: int | None = None


def judged(patch: Patch, memory: Memory | None) -> Memory | MemoryVerdictV1:
    """The memory with the patch's fields changed, composed again; or the verdict why it stays. CPU-bound."""
    if memory is None:
        return MemoryVerdictV1(id=patch.id, status="missing", reason="no memory has this id")
    if memory.deleted_at is not None:
        return MemoryVerdictV1(id=patch.id, status="missing", reason="it was deleted")
    if memory.superseded_by is not None:
        return conflict(patch.id, f"{memory.superseded_by!r} supersedes it: change that one")
    if patch.expected_version is not None and patch.expected_version != memory.version:
        return conflict(patch.id, f"it is at version {memory.version}, not {patch.expected_version}: read it again")
    given, fields = as_message(memory), MemoryV1.model_fields
    whole = dict(given)
    for name, value in patch.changes.items():
        whole[name] = fields[name].get_default(call_default_factory=True) if value is None else value
    try:
        changed = compose(MemoryV1.model_validate(whole), memory.tenant)
    except (ValidationError, InvalidMessage) as error:
        why = describe(error) if isinstance(error, ValidationError) else str(error)
        return MemoryVerdictV1(id=patch.id, status="rejected", reason=why)
    # The stored hash is of the message as it was sent: tags that repeat, and what it superseded, are not kept.
    if changed.content_hash in (memory.content_hash, content_hash(given)):
        return MemoryVerdictV1(id=patch.id, status="unchanged")
    return changed


def conflict(name: str, why: str) -> MemoryVerdictV1:
    return MemoryVerdictV1(id=name, status="conflict", reason=why)


# The kind of a memory whose sender gave none. What a text is shows where it begins.
_MOST_KIND_CHARS = 1000

_ACT = (
    r"(?:close|open|press|turn|run|use|set|call|go|take|put|click|start|stop|check|unplug|plug|hold|add|mix|"
    r"remove|connect|disconnect|switch|wait|type|enter|push|pull|lift|shut|drain|fill|heat|select|choose)\b"
)
_START = r"(?:^|[.!?:;\n][ \t]*)(?:and |but |so |well,? |ok,? |also,? |please )?"


class KindGuess(NamedTuple):
    """A kind, and how sure it is, in [0, 1]."""

    kind: str
    confidence: float


UNSURE = KindGuess("experience", 0.5)
_BLANKS = re.compile(r"\s+")
_BE = re.compile(r"[^.?!\n]{0,120}?\b(?:is|are|was|were)\b")
# Kind, confidence, and how a text of it begins or what it says; the more special first.
_CUES: tuple[tuple[str, float, re.Pattern[str]], ...] = tuple(
    (kind, confidence, re.compile("|".join(ways)))
    for kind, confidence, *ways in (
        (
            "procedure", 0.9,
            r"^(?:how to|steps?(?: to\b[^:\n]{0,80})?:|instructions?\b[^:\n]{0,80}:|recipe\b[^:\n]{0,80}:)",
            r"(?:^|\n)[ \t]*(?:step )?1[.):][^\n]{1,300}\n[ \t]*(?:step )?2[.):]",
            r"\b1[.)] [^\n]{3,200}? 2[.)] ",
            r"^to [a-z]+\b[^.?!\n]{0,120}, (?:first |always |you (?:need to |have to |must |should )?)?" + _ACT,
            r"\bfirst,? (?:you )?[a-z]+\b[^?\n]{3,200}[,;.] (?:and )?then,? (?:you )?" + _ACT,
            r"^(?:always|never) [a-z]+\b[^.?!\n]{3,160}\b(?:before|after|when|until|unless|if)\b",
        ),
        (
            "task", 0.9,
            r"^(?:to-?do|task|reminder|action item)s?\b\s*[:\-]",
            _START + r"(?:remind (?:me|us) (?:to|about|that)|remember to|don'?t forget (?:to|that|about))\b",
        ),
        (
            "task", 0.8,
            _START + r"(?:i|we|you) (?:still |really )?(?:need to|have to|must|'?ve got to)\b[^.?!\n]{0,120}"
            r"\b(?:by|before|until|today|tonight|tomorrow|this|next|on [a-z]+day)\b",
            r"\b(?:is|are) due (?:on|by|before|next|this|tomorrow|today|at the end)\b",
        ),
        (
            "plan", 0.85,
            _START + r"(?:the|our|my) plan (?:is|for)\b",
            _START + r"(?:i|we)(?:'re| are|'m| am)? (?:plan(?:ning)? to|intend(?:ing)? to|aim(?:ing)? to)\b",
            r"^(?:plan|roadmap|strategy)\b[^:\n]{0,80}:",
        ),
        (
            "opinion", 0.85,
            _START + r"(?:in my (?:opinion|view)|if you ask me|(?:i|we) (?:personally )?(?:think|believe|feel|"
            r"reckon|doubt) (?:that |the |it |he |she |they |we |this |our )|(?:i|we) (?:much |really |strongly )?"
            r"(?:prefer|dislike|hate|loathe|can't stand|disagree)\b)",
            r"\bmy favou?rite [^.?!\n]{1,60}\bis\b",
        ),
        (
            "observation", 0.8,
            _START + r"(?:i|we) (?:have )?(?:noticed|observed)(?: that)?\b",
            r"^(?:observation|observed)\b\s*[:\-]",
            _START + r"(?:it (?:seems|appears|looks as if|looks like)) ",
        ),
        (
            "world", 0.8,
            r"^(?:the |a |an )?(?:capital|population|headquarters|manual|specification|definition|boiling point|"
            r"melting point) (?:of|says)\b[^.?!\n]{1,160}\b(?:is|are|states)\b",
            r"^[a-z][\w' -]{1,60} (?:is|are) (?:a|an) (?:kind|type|sort|species|unit|city|country|company|protocol|"
            r"language|programming language|database|library|river|mountain|mineral|metal|island)\b",
        ),
    )
)  # fmt: skip


def infer_kind(text: str, *, title: str | None = None, is_talk: bool = False) -> KindGuess:
    """The kind that the text says plainly, else experience; `is_talk`: it is a turn of a conversation."""
    if is_talk or is_question(text):
        return UNSURE
    # Runs of blanks and of line breaks would be tried at every place of a pattern.
    folded = _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", text[:_MOST_KIND_CHARS].casefold().strip())
    folded = folded.replace("’", "'")
    for kind, confidence, pattern in _CUES:
        if pattern.search(folded) is not None:
            return KindGuess(kind, confidence)
    # "Tinnelva is a river": the text begins by saying what its title is.
    name = re.sub(r"\s*\([^()]*\)$", "", (title or "").casefold()).strip().removeprefix("the ")
    folded = folded.removeprefix("the ")
    is_defined = name and folded.startswith(name) and _BE.match(folded.removeprefix(name)) is not None
    return KindGuess("world", 0.85) if is_defined else UNSURE
