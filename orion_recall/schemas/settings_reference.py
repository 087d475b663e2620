"""The settings reference: variable, default and meaning of each setting, generated from the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic.fields import FieldInfo

from orion_recall.settings import FILE_SUFFIX, Settings, is_secret

PREFIX = "ORION_"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting. `default` is written as in the environment; "" for none."""

    variable: str
    default: str
    meaning: str
    is_secret: bool

    @property
    def variables(self) -> tuple[str, ...]:
        """Its variable and, of a secret, the one that names a file with it."""
        return (self.variable, f"{self.variable}{FILE_SUFFIX}") if self.is_secret else (self.variable,)


def setting_rows() -> list[SettingRow]:
    return [
        SettingRow(
            variable=f"{PREFIX}{name}".upper(),
            default=_written(field),
            meaning=field.description or "",
            is_secret=is_secret(field),
        )
        for name, field in Settings.model_fields.items()
    ]


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """The names with our prefix that are no settings: nothing reads them."""
    known = {name for row in setting_rows() for name in row.variables}
    # The environment's names are read in any case.
    return sorted(name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known)


def as_markdown(rows: Iterable[SettingRow]) -> str:
    lines = [
        "# Settings",
        "",
        "Every setting of workers and commands with its default, made by `make environment` from the code.",
        "What is marked **secret** (an address may hold a password) is never logged. Each of these may be in a",
        "file, as Docker and Kubernetes mount secrets: `ORION_NAME_FILE` is its path. To set both is an error.",
        "",
    ]
    for row in rows:  # a default in words stands at the end of the meaning
        meaning, _, in_words = row.meaning.partition("; default: ")
        default = f"`{row.default}`" if row.default else in_words or "none"
        lines.append(f"- `{row.variable}` ({default}): {meaning}{' **secret**' if row.is_secret else ''}")
    return "\n".join(lines) + "\n"


def _written(field: FieldInfo) -> str:
    """The default as written in the environment. One that depends on the machine is in the description."""
    default: Any = None if field.default_factory is not None else field.default
    match default:
        case None:
            return ""
        case bool():
            return str(default).lower()
        case tuple():
            return ",".join(str(part) for part in cast("tuple[object, ...]", default))
        case Mapping():
            return ",".join(f"{key}={value}" for key, value in cast("Mapping[str, str]", default).items())
        case Path():
            return default.as_posix()
        case _:
            return str(default)
