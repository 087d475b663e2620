"""The client's former address, until version 0.3: it is `from orion_recall import RecallClient` now."""

from __future__ import annotations

from orion_recall.client import RecallClient

__all__ = ["RecallClient"]
