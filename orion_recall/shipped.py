"""Shipped files: the folders of profiles and contracts that are part of the installation."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from orion_recall.errors import SettingsError

_PACKAGE = Path(__file__).resolve().parent


def shipped_folder(name: Literal["profiles", "contracts"], *, package: Path = _PACKAGE) -> Path:
    """The folder of the shipped `name`: inside an installed wheel, else at the top of the checkout.

    Raises `SettingsError` when the installation has neither.
    """
    installed = package / "_shipped" / name
    if installed.is_dir():
        return installed
    # Without a pyproject.toml the parent is a site-packages, where a folder `profiles` is not ours.
    checkout = package.parent
    if (checkout / "pyproject.toml").is_file() and (checkout / name).is_dir():
        return checkout / name
    raise SettingsError(
        f"this installation of orion-recall lacks its folder {name!r} (looked for {installed}): reinstall it"
    )
