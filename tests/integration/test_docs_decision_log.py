"""The page of the decision log is what the schema says."""

from __future__ import annotations

from docs.tools.decision_log import decision_log_page
from docs.tools.reference import FOLDER


async def test_the_page_has_every_column_of_the_table_and_its_views(database: str) -> None:
    assert await decision_log_page(database) == (FOLDER / "decision-log.md").read_text("utf-8"), "run `make docs`"
