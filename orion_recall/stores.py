"""Deprecated import path of `orion_recall.open_sources`, kept until version 0.3."""

from orion_recall.serving.backends import Opened as Opened
from orion_recall.serving.backends import open_sources as open_sources
