"""orion-recall: the one place an agent mesh asks "what do we remember about this?"."""

from __future__ import annotations

__version__ = "0.1.0"
