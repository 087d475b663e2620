"""Writes the pages under docs/pages/reference that are made from the code: `python -m docs.tools.reference`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.tools.commands import commands_page
from docs.tools.decision_log import decision_log_page
from docs.tools.errors import errors_page
from docs.tools.messages import messages_page
from docs.tools.metrics import metrics_page
from docs.tools.requirements import requirements_page
from docs.tools.score_parts import score_parts_page
from orion_recall.engines.embedded import EmbeddedEngines
from orion_recall.postgres.pool import migrate
from orion_recall.profile.reference import profile_markdown
from orion_recall.schemas.settings_reference import as_markdown, setting_rows

FOLDER = Path(__file__).parents[1] / "pages" / "reference"


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
    """Write all pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    texts = {name: page() for name, page in PAGES.items()}
    for name, text in (texts | {"decision-log.md": asyncio.run(_decision_log())}).items():
        (FOLDER / name).write_text(text, "utf-8", newline="\n")


if __name__ == "__main__":
    main()
