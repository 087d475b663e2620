"""Deprecated import path of the client, kept until version 0.3: use `from orion_recall import RecallClient`."""

from __future__ import annotations

from orion_recall.client import RecallClient

__all__ = ["RecallClient"]
