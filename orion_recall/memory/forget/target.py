"""What is to be forgotten, the SQL that finds it, and the rows of the report."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field, replace
from typing import Literal, LiteralString

from orion_recall.decisions.blanking import DecisionsWanted
from orion_recall.text.normal import storable

Kind = Literal["memory", "person", "session", "user", "tenant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What one tenant wants forgotten. `values` are ids of memories, a person's names, a session or a user."""

    kind: Kind
    tenant: str
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, kind: Kind, tenant: str, *values: str) -> Target:
        """The same with text that Postgres can hold."""
        return cls(kind=kind, tenant=storable(tenant), values=tuple(storable(one) for one in values))

    def also_called(self, names: tuple[str, ...]) -> Target:
        """A person with further names: those that were merged with the given one."""
        return replace(self, values=tuple(dict.fromkeys((*self.values, *names))))

    @property
    def name_pattern(self) -> str | None:
        """A person's names as whole words, as a regular expression of Postgres; None for other kinds."""
        if self.kind != "person":
            return None
        # Letters, digits and `_` are words, here and in Postgres. In JSON a new line before a name is an "n".
        return rf"(^|\W|\\[bfnrt]|\\u[0-9a-f]{{4}})({'|'.join(map(_escaped, self.values))})(\W|$)"

    def selector(self, salt: str) -> str:
        """A salted hash of what is wanted, by which a run that was stopped is found again."""
        wanted = sorted(self.values) if self.kind == "memory" else self.values[:1]
        return hashlib.sha256(json.dumps([salt, self.kind, self.tenant, *wanted]).encode()).hexdigest()

    def decisions(self, ids: tuple[str, ...]) -> DecisionsWanted:
        """The decisions whose words go: those that quoted the memories, and by or about whom is forgotten."""
        asker = self.kind if self.kind in ("user", "session", "tenant") else None
        value = self.tenant if self.kind == "tenant" else self.values[0]
        return DecisionsWanted(
            tenant=self.tenant,
            ids=() if self.kind == "tenant" else ids,
            naming=self.name_pattern,
            by=None if asker is None else (asker, value),
        )

    @property
    def condition(self) -> LiteralString:
        """The condition on `memories m`; $1 is the tenant, $2 what `parameter` gives."""
        return _CONDITIONS[self.kind]

    @property
    def history_condition(self) -> LiteralString | None:
        """The condition on `memory_history h` of other memories, of what they said before; None for none."""
        return _HISTORY.get(self.kind)

    @property
    def parameter(self) -> object:
        """The value of $2."""
        if self.kind == "memory":
            return list(self.values)
        return (
            self.name_pattern if self.kind == "person" else self.tenant if self.kind == "tenant" else self.values[0]
        )


# In a row's JSON every text of it is searched. A quotation mark in it is escaped, so it is in the name, too.
# Names are found however they are spelt, and in texts as they are given: "May" must not take every "may".
_CONDITIONS: dict[Kind, LiteralString] = {
    "memory": "m.id = ANY($2::text[])",
    "person": """(
        (to_jsonb(m) - ARRAY['search', 'tenant', 'id'])::text ~ $2
        OR jsonb_build_array(m.speaker, m.entities, m.given_entities, m.statements, m.title)::text ~* $2
    )""",
    "session": "m.session_id = $2",
    "user": "m.user_id = $2",
    # Those that were erased before still say whose they were, and when; their history by whom, and why.
    "tenant": """m.tenant = $2::text AND (
        m.content_hash <> '' OR m.ts IS NOT NULL
        OR num_nonnulls(m.session_id, m.user_id, m.agent_id, m.run_id, m.node_id) > 0
        OR EXISTS (SELECT FROM memory_history h WHERE h.tenant = m.tenant AND h.memory_id = m.id
                   AND (h.actor IS NOT NULL OR h.lineage ? 'reason'))
    )""",
}
_HISTORY: dict[Kind, LiteralString] = {
    "person": "h.before::text ~ $2",
    "session": "h.before ->> 'session_id' = $2",
    "user": "h.before ->> 'user_id' = $2",
}


def _escaped(name: str) -> str:
    return re.sub(r"([^\w\s])", r"\\\1", json.dumps(name, ensure_ascii=False)[1:-1])


@dataclass(slots=True, kw_only=True)
class Place:
    """One row of the report: how much went from a place, what remains there, and until when."""

    place: str
    gone: int = 0
    what: str = ""
    remains: str = ""
    until: str = ""


@dataclass(slots=True, kw_only=True)
class Report:
    """What was forgotten, place by place. `unfinished` says why the command has to be run again."""

    kind: Kind
    tenant: str
    dry_run: bool
    memories: int = 0
    forget: int | None = None
    places: list[Place] = field(default_factory=list[Place])
    unfinished: list[str] = field(default_factory=list[str])

    def add(self, place: str, gone: int = 0, what: str = "", *, remains: str = "", until: str = "") -> None:
        """Adds a place."""
        self.places.append(Place(place=place, gone=gone, what=what, remains=remains, until=until))

    @property
    def counts(self) -> dict[str, int]:
        """How much went, by place: what is kept of it."""
        return {one.place: one.gone for one in self.places if one.gone}
