"""The libraries themselves, which are not in the environment that types are checked in."""

from __future__ import annotations

import importlib
from typing import Any

torch: Any = importlib.import_module("torch")
sentence_transformers: Any = importlib.import_module("sentence_transformers")
transformers: Any = importlib.import_module("transformers")
