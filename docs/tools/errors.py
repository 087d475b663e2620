"""The reference page of all errors, made from `orion_recall/errors.py`."""

from __future__ import annotations

import inspect

from orion_recall import errors


def errors_page() -> str:
    """The tree of errors, and what each of them means, as Markdown."""
    tree = inspect.getdoc(errors) or ""
    first, _, rest = tree.partition("\n\n")
    lines = ["# Errors", "", first, "", "```text", rest.rstrip(), "```", "", "| error | meaning |", "|---|---|"]
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, errors.OrionError) and error.__module__ == errors.__name__:
            meaning = " ".join((inspect.getdoc(error) or "").split()).replace("|", "\\|")
            lines.append(f"| `{name}` | {meaning} |")
    return "\n".join(lines) + "\n"
