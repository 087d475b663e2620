"""orion-recall: a service on a message bus that answers "what do we remember about this?".

The names below are public. Each is loaded when it is first asked for: a client loads redis and pydantic only. A
recall without a bus is `orion_recall.recall.pipeline.recall`: here `recall` is that package's name.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orion_recall.client import RecallClient, SyncRecallClient
    from orion_recall.contracts import MemoryBundleV1, RecallOptionsV1, RecallQueryV1, RecallReplyV1
    from orion_recall.errors import (
        BusRefused,
        BusUnavailable,
        ClientError,
        InvalidMessage,
        OrionError,
        ReplyTimeout,
        SettingsError,
    )
    from orion_recall.serving.backends import open_sources

__version__ = "0.1.0"

__all__ = [
    "BusRefused",
    "BusUnavailable",
    "ClientError",
    "InvalidMessage",
    "MemoryBundleV1",
    "OrionError",
    "RecallClient",
    "RecallOptionsV1",
    "RecallQueryV1",
    "RecallReplyV1",
    "ReplyTimeout",
    "SettingsError",
    "SyncRecallClient",
    "__version__",
    "open_sources",
]
_MODULES = {
    "MemoryBundleV1": "contracts",
    "RecallClient": "client",
    "RecallOptionsV1": "contracts",
    "RecallQueryV1": "contracts",
    "RecallReplyV1": "contracts",
    "SyncRecallClient": "client",
    "open_sources": "serving.backends",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
