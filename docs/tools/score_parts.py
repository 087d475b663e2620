"""The page of the score parts, made from their table."""

from __future__ import annotations

import re

from orion_recall.scoring.parts import LATER_PARTS, PARTS, ScorePart


def score_parts_page() -> str:
    """The page as Markdown."""
    lines = [
        "# Score parts",
        "",
        "The score of a memory is the weighted mean of its parts. Each part is a number from 0 to 1. A part with",
        "the weight 0, or that a memory does not have, does not count: the mean is over the other parts.",
        "",
        "A profile sets the weights, each from 0 to 100, in its section `ranking`",
        "([Profile keys](profile-keys.md)).",
        "`orion-recall ask --explain` shows each part of an answer's scores with its value and its share.",
        "",
        "## Parts of the ranking",
        "",
        "| part | default weight | what it measures | made | name in an explanation |",
        "|---|---|---|---|---|",
        *(_row(part) for part in PARTS),
        "",
        "## Parts that are added later",
        "",
        "A reranker adds a part to the score. A cascade merges the items of several layers by parts of its own.",
        "",
        "| part | profile key of its weight | name in an explanation |",
        "|---|---|---|",
        *(f"| `{name}` | `{key}` | {reason} |" for name, (key, reason) in LATER_PARTS.items()),
    ]
    return "\n".join(lines) + "\n"


def _row(part: ScorePart) -> str:
    made = "with a weight above 0" if part.needs_weight else part.made
    measures = re.sub("^'(.+)'", r"\1", part.measures)  # a condition stands in quotes, for sentences
    measures += f"; with 0 {part.without}" if part.without else ""
    return f"| `{part.name}` | {part.weight:g} | {measures} | {made} | {part.reason} |"
