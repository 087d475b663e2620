"""The former address of `orion_recall.serving.service`; it goes with version 0.3."""

from orion_recall.serving.service import Service as Service
from orion_recall.serving.service import loaded_profiles as loaded_profiles
