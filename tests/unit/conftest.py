from __future__ import annotations

from hypothesis import settings

# Time limits per example would measure the machine's other work.
settings.register_profile("orion", deadline=None)
settings.load_profile("orion")
