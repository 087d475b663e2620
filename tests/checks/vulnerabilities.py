"""Checks the installed packages for known vulnerabilities, by pip-audit: `python -m tests.checks.vulnerabilities`.

It asks PyPI's own interface, which many package indexes do not have. Whether it answers is asked first, for one
package. Where it does not, nothing was checked: that is said, and is no error unless `--must` is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Known vulnerabilities that do not touch us, by their ids, each with why.
ACCEPTED: Mapping[str, str] = {}
_ASKED_FIRST = "pydantic"
_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was found: how many packages were judged, which were not, and the vulnerabilities as lines."""

    judged: int
    passed_over: Sequence[str]
    vulnerable: Sequence[str]


def read_audit(text: str) -> Audit:
    """What pip-audit said in JSON. What it skips, it could not judge."""
    told: list[dict[str, Any]] = json.loads(text)["dependencies"]
    judged = [one for one in told if "skip_reason" not in one]
    return Audit(
        judged=len(judged),
        passed_over=[one["name"] for one in told if "skip_reason" in one],
        vulnerable=[
            f"{one['name']} {one['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions']) or 'none'}"
            for one in judged
            for flaw in one["vulns"]
            if not {flaw["id"], *flaw.get("aliases", ())} & ACCEPTED.keys()
        ],
    )


def ask(*arguments: str) -> Audit | str:
    """The audit; a sentence when there is none."""
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {_TIMEOUT_S} s"
    try:
        return read_audit(done.stdout)
    except (ValueError, KeyError, TypeError):
        return (done.stderr.strip().splitlines() or ["it said nothing"])[-1][:300]


def is_reachable() -> str | None:
    """Why PyPI's interface cannot be asked; None when it answers."""
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder) / "requirements.txt"
        one.write_text(f"{_ASKED_FIRST}=={version(_ASKED_FIRST)}\n")
        found = ask("--no-deps", "--disable-pip", "--requirement", str(one))
    if isinstance(found, str):
        return found
    return (
        None if found.judged else f"the package index knows nothing of vulnerabilities (asked for {_ASKED_FIRST})"
    )


def report(found: Audit | str, *, must: bool) -> tuple[list[str], int]:
    """The lines to print, and the exit code."""
    if isinstance(found, str) or not found.judged:
        why = found if isinstance(found, str) else "no package could be judged"
        return [f"vulnerabilities: NOT CHECKED: {why}", "  run `make check` where PyPI itself answers"], int(must)
    lines = [f"vulnerability: {one}" for one in found.vulnerable]
    told = f"vulnerabilities: {found.judged} packages checked, {len(found.vulnerable)} vulnerabilities"
    lines.append(told)
    if found.passed_over:
        lines.append(f"vulnerabilities: NOT CHECKED: {', '.join(found.passed_over)} (PyPI does not have them)")
    return lines, int(bool(found.vulnerable))


def main() -> int:
    """Print what was found; 1 for a vulnerability."""
    why = is_reachable()
    lines, code = report(why if why is not None else ask("--skip-editable"), must="--must" in sys.argv[1:])
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
