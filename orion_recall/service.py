"""Deprecated import path of `orion_recall.serving.service`, kept until version 0.3."""

from orion_recall.profile.watch import loaded_profiles as loaded_profiles
from orion_recall.serving.service import Service as Service
