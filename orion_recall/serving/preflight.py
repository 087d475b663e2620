"""Preflight checks of the settings, before anything is started.

Without them `up` would start its engines, and a worker load its model, only to fail with the same error.
"""

from __future__ import annotations

from orion_recall.external.mappings import load_mappings
from orion_recall.models.opening import check_models
from orion_recall.profile.watch import profiles_with_default
from orion_recall.serving.observe.otlp import otlp_exporters
from orion_recall.serving.observe.port import listening_socket
from orion_recall.settings import Settings


async def check_settings(settings: Settings) -> None:
    """Profiles, models, the health port, OTLP and the mappings' file; nothing stays open.

    SettingsError or ProfileError for the first thing that cannot be used, ModelError when the model that needs no
    setting is not on this machine.
    """
    profiles_with_default(settings)
    await check_models(settings)
    if settings.health_port is not None:
        listening_socket(settings.health_host, settings.health_port).close()
    otlp_exporters()
    load_mappings(settings.mappings).check_secrets()
