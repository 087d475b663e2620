"""Checks the installed packages for known vulnerabilities, by pip-audit: `python -m tests.checks.vulnerabilities`.

It asks PyPI's own interface, which many package indexes do not have. Where that does not answer, nothing was
checked: that is said, and is no error unless `--must` is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

_TIMEOUT_S = 300
_COMMAND = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]


def report(said: str, errors: str, *, must: bool) -> tuple[list[str], int]:
    """The lines to print of what pip-audit said in JSON, and the exit code: 1 for a vulnerability."""
    try:
        told: list[dict[str, Any]] = json.loads(said)["dependencies"]
    except (ValueError, KeyError, TypeError):
        told = []
        why = (errors.strip().splitlines() or ["it said nothing"])[-1][:300]
    else:
        why = "no package could be judged"
    judged = [one for one in told if "skip_reason" not in one]
    if not judged:
        return [f"vulnerabilities: NOT CHECKED: {why}", "  run `make check` where PyPI itself answers"], int(must)
    flaws = [
        f"vulnerability: {one['name']} {one['version']}: {flaw['id']}, mended in {', '.join(flaw['fix_versions'])}"
        for one in judged
        for flaw in one["vulns"]
    ]
    skipped = [one["name"] for one in told if "skip_reason" in one]
    lines = [*flaws, f"vulnerabilities: {len(judged)} packages checked, {len(flaws)} vulnerabilities"]
    lines += [f"vulnerabilities: NOT CHECKED: {', '.join(skipped)} (PyPI does not have them)"] if skipped else []
    return lines, int(bool(flaws))


def main() -> int:
    try:
        done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        said, errors = done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        said, errors = "", f"no answer within {_TIMEOUT_S} s"
    lines, code = report(said, errors, must="--must" in sys.argv[1:])
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
