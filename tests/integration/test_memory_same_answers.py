"""What is recalled is the same after index and graph were made anew, and after the record was backed up and restored.

Ids, order and rendered text are equal, scores within 1e-5, for fifty questions. The search is exact: an index of so few
memories builds no approximate search structure.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import pytest

from orion_recall.cli.main import run
from orion_recall.contracts import MemoryV1, RecallQueryV1
from orion_recall.memory.compose import compose
from orion_recall.memory.journey import Journey, Patch
from orion_recall.memory.project import Projector
from orion_recall.memory.record import Record
from orion_recall.postgres import Pool, open_pool
from orion_recall.recall.pipeline import recall
from orion_recall.sample.timed import sample_memories
from orion_recall.service import loaded_profiles
from orion_recall.settings import Settings
from orion_recall.sources.edge import EdgeIndex
from orion_recall.stores import Opened, open_sources

NOW = 1_780_000_000.0
