"""The file that ORION_RETENTION names: for how many days what is kept, for all tenants and for single ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from orion_recall.contracts import describe
from orion_recall.errors import SettingsError
from orion_recall.memory.background.housekeeping import KEPT_DAYS
from orion_recall.postgres.periods import Periods
from orion_recall.settings import Settings


def _days(value: object) -> object:
    return None if value == "keep" else value


# Days; `keep` in the file is None.
_Days = Annotated[Annotated[int, Field(ge=1, le=36_500)] | None, BeforeValidator(_days)]


class _OfTenant(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    decisions: _Days = None
    requests: _Days = None


class _File(_OfTenant):
    dead_letters: _Days = None
    tenants: dict[str, _OfTenant] = Field(default_factory=dict[str, _OfTenant])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How long decisions, answers to requests and dead letters are kept. A dead letter is no tenant's."""

    decisions: Periods
    requests: Periods
    dead_letter_days: int | None = None


def read_retention(settings: Settings) -> Kept:
    """What the settings and their file say; SettingsError for a file that says something else.

    Where it says nothing of decisions, ORION_DECISIONS_RETENTION_DAYS counts; of requests, a week.
    """
    said = _read(settings)
    given = said.model_fields_set
    if settings.decisions_retention_days is not None and "decisions" in given:
        raise SettingsError(
            f"ORION_DECISIONS_RETENTION_DAYS and `decisions` in {settings.retention} say the same: leave one out"
        )
    return Kept(
        decisions=Periods(
            days=said.decisions if "decisions" in given else settings.decisions_retention_days,
            by_tenant=_by_tenant(said.tenants, "decisions"),
        ),
        requests=Periods(
            days=said.requests if "requests" in given else KEPT_DAYS, by_tenant=_by_tenant(said.tenants, "requests")
        ),
        dead_letter_days=said.dead_letters,
    )


def _read(settings: Settings) -> _File:
    path = settings.retention
    if path is None:
        return _File()
    try:
        return _File.model_validate(yaml.safe_load(path.read_bytes()) or {})
    except OSError as error:
        raise SettingsError(f"ORION_RETENTION: {path} cannot be read: {error.strerror or error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"ORION_RETENTION: {path} is not YAML") from error
    except ValidationError as error:
        raise SettingsError(f"ORION_RETENTION: {path}: {describe(error)}; write days, or keep") from error
    except ValueError as error:  # a date that there is not
        raise SettingsError(f"ORION_RETENTION: {path}: {error}; write days, or keep") from error


def _by_tenant(tenants: Mapping[str, _OfTenant], what: Literal["decisions", "requests"]) -> dict[str, int | None]:
    return {name: getattr(said, what) for name, said in tenants.items() if what in said.model_fields_set}
