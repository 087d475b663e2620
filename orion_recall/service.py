"""The former address of `orion_recall.serving.service`; it goes with version 0.3."""

from orion_recall.profile.watch import loaded_profiles as loaded_profiles
from orion_recall.serving.service import Service as Service
