"""Entries that wait, taken from their tenants in turn: who sends many waits for himself, not for others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from orion_recall.bus.group_reader import Entry


class FairQueue:
    """A queue for each tenant, and the turn of the tenants. `size_bytes` is what the entries hold together."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._by_tenant: dict[str, deque[Entry]] = {}
        self._turns: deque[str] = deque()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """The entries, by tenant."""
        return (entry for waiting in self._by_tenant.values() for entry in waiting)

    def put(self, tenant: str, entry: Entry, *, first: bool = False) -> None:
        """Let the entry wait, behind those of its tenant or, with `first`, before them."""
        if tenant not in self._by_tenant:
            self._by_tenant[tenant] = deque()
            self._turns.append(tenant)
        waiting = self._by_tenant[tenant]
        if first:
            waiting.appendleft(entry)
        else:
            waiting.append(entry)
        self._count += 1
        self.size_bytes += entry.size_bytes

    def take(self) -> tuple[str, Entry] | None:
        """The next entry of the tenant whose turn it is; None when nothing waits."""
        if not self._turns:
            return None
        tenant = self._turns.popleft()
        waiting = self._by_tenant[tenant]
        entry = waiting.popleft()
        self._keep(tenant, entry, waiting)
        if waiting:
            self._turns.append(tenant)
        return tenant, entry

    def has(self, tenant: str) -> bool:
        """Whether something of the tenant waits."""
        return tenant in self._by_tenant

    def ahead_of(self, tenant: str) -> int:
        """How many entries come before another one of this tenant, as far as is known now."""
        own = len(self._by_tenant.get(tenant, ()))
        return own + sum(min(len(waiting), own + 1) for name, waiting in self._by_tenant.items() if name != tenant)

    def drop_newest(self) -> Entry:
        """Take out the newest entry of the tenant who has most waiting. IndexError when nothing waits."""
        if not self._by_tenant:
            raise IndexError("nothing waits")
        tenant, waiting = max(self._by_tenant.items(), key=lambda one: len(one[1]))
        entry = waiting.pop()
        self._keep(tenant, entry, waiting)
        if not waiting:
            self._turns.remove(tenant)
        return entry

    def _keep(self, tenant: str, gone: Entry, waiting: deque[Entry]) -> None:
        self._count -= 1
        self.size_bytes -= gone.size_bytes
        if not waiting:
            del self._by_tenant[tenant]
