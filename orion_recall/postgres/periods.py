"""How long rows are kept, in days: for all tenants, and for those that have a period of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

# Of a statement that deletes old rows: the tenant ($3; null: every one but those in $4).
OF_TENANT: LiteralString = """(($3::text IS NULL AND NOT coalesce(tenant, '') = ANY($4::text[])) OR tenant = $3)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The days of one tenant, or of all others (`tenant` None) than `but`: the arguments of `OF_TENANT`."""

    days: int
    tenant: str | None = None
    but: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Periods:
    """`days` of all tenants that are not in `by_tenant`; None: kept."""

    days: int | None
    by_tenant: Mapping[str, int | None] = field(default_factory=dict[str, int | None])

    @property
    def each(self) -> list[Period]:
        others = [] if self.days is None else [Period(days=self.days, but=tuple(self.by_tenant))]
        return [*others, *(Period(days=days, tenant=name) for name, days in self.by_tenant.items() if days)]
