"""Writes the pages under docs/pages/reference that are made from the code: `python -m docs.tools.reference`."""

from __future__ import annotations

import asyncio
import inspect
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.tools.decision_log import decision_log_page
from docs.tools.metrics import metrics_page
from docs.tools.profile_keys import profile_markdown
from docs.tools.requirements import requirements_page
from orion_recall import errors
from orion_recall.cli.main import COMMANDS, load
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.schema import migrate
from orion_recall.schemas import as_markdown, schemas, setting_rows
from orion_recall.scoring.parts import LATER_PARTS, PARTS

FOLDER = Path(__file__).parents[1] / "pages" / "reference"
_COMMANDS = """\
# Commands

Every command has `--help` with all of its options; most have `--json`, which prints one JSON document on standard
output. Notes and errors go to standard error. Exit codes: 0 done; 1 it failed, or was not found; 2 wrong usage or
settings; 3 everything is stored, but the index or the graph does not move (`import` alone); 130 interrupted.
"""
_MESSAGES = """\
# Messages

Every message is one JSON object in an envelope, in the field `envelope` of a stream entry. The JSON Schemas with
the types and bounds of all fields, an AsyncAPI document and examples lie in `contracts/`. Bold fields are required.
"""
_SCORE_PARTS = """\
# Score parts

The score of a memory is the weighted mean of its parts. Each part is a number from 0 to 1. A part with the weight
0, or that a memory does not have, does not count: the mean is over the other parts. A profile sets the weights,
each from 0 to 100, in its section `ranking` ([Profile keys](profile-keys.md)). `orion-recall ask --explain` shows
the parts of an answer's scores with their values and shares.

## Parts of the ranking
"""


def commands_page() -> str:
    """Every command with its first line and an example, as Markdown."""
    lines = [_COMMANDS]
    for name in COMMANDS:
        lines += [f"## orion-recall {name}", ""]
        for path, command in _walk(name, load(name)):
            told = inspect.cleandoc(command.help or "").replace("\b", "")
            example = re.search(r"Example[^`]*`([^`]+)`", told)
            shown = f" Example: `{' '.join(example[1].split())}`" if example else ""
            lines.append(f"- `{path}`: {_sentence(told)}{shown}")
        lines.append("")
    return "\n".join(lines)


def _walk(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """The command and all below it, each with the words that call it."""
    yield path, command
    below: Mapping[str, Any] = getattr(command, "commands", None) or {}
    for name, inner in below.items():
        if inner.hidden:  # gone: it only says what took its place
            continue
        yield from _walk(f"{path} {name}", inner)


def errors_page() -> str:
    """All errors with their meaning, as Markdown."""
    lines = ["# Errors", "", _sentence(inspect.getdoc(errors) or ""), "", "| error | meaning |", "|---|---|"]
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, errors.OrionError) and error.__module__ == errors.__name__:
            lines.append(_cells(f"`{name}`", " ".join((inspect.getdoc(error) or "").split())))
    return "\n".join(lines) + "\n"


def messages_page() -> str:
    """Every message with its fields as Markdown; what several messages have stands once."""
    parts, known = [_MESSAGES], set[str]()
    for name, schema in schemas().items():
        if name not in ("profile", "mappings"):
            parts.append(_message(f"## {name}", schema))
            definitions = {key: one for key, one in schema.get("$defs", {}).items() if key not in known}
            known |= definitions.keys()
            parts += [_message(f"### {key}", one) for key, one in definitions.items() if "properties" in one]
    return "\n".join(parts)


def _message(heading: str, schema: Mapping[str, Any]) -> str:
    """A heading, what the message is, and its fields: those with a meaning one a line, the others together."""
    required = set(schema.get("required", ()))
    lines, plain = [heading, "", " ".join(str(schema.get("description", "")).split()), ""], list[str]()
    for name, one in schema.get("properties", {}).items():
        shown = f"**`{name}`**" if name in required else f"`{name}`"
        if told := one.get("description"):
            lines.append(f"- {shown}: {' '.join(str(told).split())}")
        else:
            plain.append(shown)
    if plain:
        lines.append(f"- {', '.join(plain)}")
    return "\n".join([*lines, ""])


def score_parts_page() -> str:
    """The parts of the score, from their table, as Markdown."""
    lines = [_SCORE_PARTS, "| part | default weight | what it measures | made |", "|---|---|---|---|"]
    for part in PARTS:
        measures = re.sub("^'(.+)'", r"\1", part.measures)  # a condition stands in quotes, for sentences
        measures += f"; with 0 {part.without}" if part.without else ""
        made = "with a weight above 0" if part.needs_weight else part.made
        lines.append(_cells(f"`{part.name}`", f"{part.weight:g}", measures, made))
    lines += ["", "## Parts of a reranker and a cascade", "", "| part | profile key of its weight |", "|---|---|"]
    lines += [_cells(f"`{name}`", f"`{key}`") for name, (key, _) in LATER_PARTS.items()]
    return "\n".join(lines) + "\n"


def _sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", " ".join(text.split()), maxsplit=1)[0]


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


# The pages that need the code alone, by their files' names.
PAGES: Mapping[str, Callable[[], str]] = {
    "commands.md": commands_page,
    "errors.md": errors_page,
    "messages.md": messages_page,
    "metrics.md": metrics_page,
    "profile-keys.md": profile_markdown,
    "requirements.md": requirements_page,
    "score-parts.md": score_parts_page,
    "settings.md": lambda: as_markdown(setting_rows()),
}


async def _decision_log() -> str:
    with tempfile.TemporaryDirectory(prefix="orion-docs-") as folder:
        Path(folder).chmod(0o755)  # as root, Postgres runs as another user
        async with EmbeddedEngines.start(Path(folder) / "data") as engines:
            await migrate(engines.postgres_dsn)
            return await decision_log_page(engines.postgres_dsn)


def main() -> None:
    texts = {name: page() for name, page in PAGES.items()}
    for name, text in (texts | {"decision-log.md": asyncio.run(_decision_log())}).items():
        (FOLDER / name).write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main()
