"""Whether a worker's index has a process of its own."""

from __future__ import annotations

import os

from orion_recall.settings import Settings


def has_own_process(settings: Settings, workers: int = 1) -> bool:
    """Whether the embedded index of each of so many workers is to have a process of its own.

    By default where every worker has two processors, and the model is a small one: that process loads it as well.
    """
    if settings.qdrant_url is not None or settings.index_process == "no":
        return False
    if settings.index_process == "yes":
        return True
    return settings.embedder != "transformers" and _processors() >= 2 * workers


def _processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
