"""A page of the documentation as the tests read it: code blocks with their comments, headings and links.

CONTRIBUTING.md says what the comments above a code block mean.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/pages"
# Blocks in these languages need a comment that says how they are tested.
TESTED_LANGUAGES = ("sh", "python", "sql", "yaml", "json")

_COMMENT = re.compile(r"<!--(.*?)-->", re.DOTALL)
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+|~~~+)(?P<language>[\w+-]*)")
_HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{#(?P<anchor>[\w-]+)\})?$")
_LINK = re.compile(r'!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)(?: "[^"]*")?\)')
_SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_HIDDEN = re.compile(r"hidden (sh|python)\n(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A code block, or code hidden in a comment. `mark` is the comment above it: `run`, `output`, `file NAME`, …"""

    language: str
    text: str
    line: int
    mark: str = ""

    @property
    def kind(self) -> str:
        """The first word of the mark; `not run` stands for all `not run: REASON`."""
        return "not run" if self.mark.startswith("not run:") else self.mark.partition(" ")[0]

    @property
    def argument(self) -> str:
        """What follows the first word of the mark."""
        return self.mark.partition(" ")[2].strip()


@dataclass(frozen=True)
class Page:
    """A Markdown file. `path` is absolute."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The path from the root of the repository."""
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def blocks(self) -> Sequence[Block]:
        """Code blocks and hidden code, in order."""
        return tuple(_blocks(self.text))

    @cached_property
    def prose(self) -> str:
        """The text without code blocks and comments; line numbers stay as they are."""
        kept: list[str] = []
        closing = ""
        for line in _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), self.text).splitlines():
            if closing:
                kept.append("")
                closing = "" if line.strip() == closing else closing
            elif fence := _FENCE.match(line):
                kept.append("")
                closing = fence["ticks"]
            else:
                kept.append(line)
        return "\n".join(kept)

    @property
    def engines(self) -> dict[str, str] | None:
        """Settings of an `up` of the page's own (`<!-- up NAME=VALUE -->`); None where the common one does."""
        for found in _COMMENT.finditer(self.text):
            word, *settings = found[1].split()
            if word == "up":
                return dict(setting.split("=", 1) for setting in settings)
        return None

    @property
    def links(self) -> Iterator[str]:
        """The targets of all links and pictures."""
        without_code = _SPAN.sub("", self.prose)
        yield from (found[1] for found in _LINK.finditer(without_code))

    @property
    def spans(self) -> Iterator[str]:
        """The `code` in the text."""
        for paragraph in re.split(r"\n\s*\n|\n(?=\||\s*[-*] )", self.prose):
            yield from (" ".join(found[2].split()) for found in _SPAN.finditer(paragraph))

    @property
    def anchors(self) -> set[str]:
        """What a link may name after the #."""
        found: set[str] = set()
        times = Counter[str]()
        for line in self.prose.splitlines():
            if heading := _HEADING.match(line):
                anchor = heading["anchor"] or slug(_plain(heading[1]))
                found.add(f"{anchor}_{times[anchor]}" if times[anchor] else anchor)
                times[anchor] += 1
        return found


def read_page(path: Path) -> Page:
    """The page at that path."""
    return Page(path, path.read_text("utf-8"))


def written_pages() -> list[Page]:
    """README, CONTRIBUTING and the pages that people write: all but the generated reference."""
    inside = sorted(path for path in PAGES.rglob("*.md") if path.parent.name != "reference")
    return [read_page(path) for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *inside)]


def all_pages() -> list[Page]:
    """Every page of the documentation, the generated ones and `deploy/README.md` too."""
    generated = [*sorted((PAGES / "reference").glob("*.md")), ROOT / "deploy/README.md"]
    return [*written_pages(), *map(read_page, generated)]


def slug(heading: str) -> str:
    """The anchor that the site gives to a heading (the rule of Python-Markdown)."""
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def without_marks(text: str) -> str:
    """The Markdown without the comments that are for the tests."""
    return re.sub(r"^ *<!--.*?-->\n", "", text, flags=re.DOTALL | re.MULTILINE)


def _plain(heading: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", heading).replace("`", "").replace("*", "")


def _blocks(text: str) -> Iterator[Block]:
    lines = text.splitlines()
    mark, number = "", 0
    while number < len(lines):
        line = lines[number]
        if line.strip().startswith("<!--"):
            first = number
            while "-->" not in lines[number]:
                number += 1
            comment = dedent("\n".join(lines[first : number + 1])).strip()[4:-3].strip()
            if hidden := _HIDDEN.match(comment):
                yield Block(language=hidden[1], text=dedent(hidden[2]) + "\n", line=first + 1, mark="run")
                comment = ""
            mark = " ".join(comment.split())
        elif fence := _FENCE.match(line):
            first = number + 1
            number = first
            while lines[number].strip() != fence["ticks"]:
                number += 1
            body = dedent("\n".join(lines[first:number])) + "\n"
            yield Block(language=fence["language"], text=body, line=first, mark=mark)
            mark = ""
        else:
            mark = ""
        number += 1
