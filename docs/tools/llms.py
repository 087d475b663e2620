"""Pages for language models, made after the site is built: llms.txt, llms-full.txt, and a .md beside each page.

The format is https://llmstxt.org: a title, a summary, and lists of links.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.tools.page import without_marks

ROOT = Path(__file__).parents[2]


def write(root: Path = ROOT) -> list[Path]:
    """Write the files into the built site; their paths. SystemExit for a page that the navigation does not name."""
    project = tomllib.loads((root / "zensical.toml").read_text("utf-8"))["project"]
    pages, site = root / project["docs_dir"], root / project["site_dir"]
    listed = list(navigation(project["nav"]))
    missing = {path.relative_to(pages).as_posix() for path in pages.rglob("*.md")} - {page for _, _, page in listed}
    if missing:
        raise SystemExit(f"zensical.toml: the navigation does not name {', '.join(sorted(missing))}")
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}"]
    section, whole = None, list[str]()
    for heading, title, page in listed:
        if heading != section:
            section = heading
            lines += ["", f"## {heading}", ""]
        text = without_marks((pages / page).read_text("utf-8"))
        lines.append(f"- [{title}]({page}): {first_sentence(text)}")
        whole.append(text)
        (site / page).parent.mkdir(parents=True, exist_ok=True)
        (site / page).write_text(text, "utf-8")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(whole), "utf-8")
    return [site / "llms.txt", site / "llms-full.txt"]


def navigation(nav: Sequence[Mapping[str, Any]], section: str = "Start") -> Iterator[tuple[str, str, str]]:
    """(section, title, page) of every page, in order."""
    for entry in nav:
        for title, inner in entry.items():
            if isinstance(inner, str):
                yield section, title, inner
            else:
                yield from navigation(inner, title)


def first_sentence(text: str) -> str:
    """The first sentence of a page, without its heading and its links."""
    paragraphs = [
        part for part in re.split(r"\n\s*\n", text) if not part.lstrip().startswith(("#", "```", "|", "!"))
    ]
    plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    return re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0]


if __name__ == "__main__":
    write()
