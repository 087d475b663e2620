"""Every command and option that a page names is one that the program has."""

from __future__ import annotations

import pytest

from docs.tools.command_lines import command_lines, mistake, mistakes
from docs.tools.page import ROOT, Page, all_pages


def test_the_commands_and_options_of_every_page_exist() -> None:
    assert [(page.name, wrong) for page in all_pages() for wrong in mistakes(page)] == []


def test_calls_are_found_in_shell_blocks_and_in_code() -> None:
    text = """\
Call `orion-recall ask "a b" --k 3`, `memory check --repair`,
`status --json` or `ORION_X=1 orion-recall up`; not `ask`.

```sh
echo '{}' | orion-recall import - --tenant t   # an apostrophe doesn't matter
pip install orion-recall
orion-recall memory store m-7 \\
  --text "two
lines" && orion-recall status
```
"""
    assert list(command_lines(Page(ROOT / "x.md", text))) == [
        ["import", "-", "--tenant", "t"],
        ["memory", "store", "m-7", "--text", "two\n;lines"],
        ["status"],
        ["ask", "a b", "--k", "3"],
        ["memory", "check", "--repair"],
        ["status", "--json"],
        ["up"],
    ]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("ask question --k 3 --explain", None),
        ("ask question --k=3", None),
        ("memory check --repair", None),
        ("decisions sql --since", "no option --since"),
        ("recollect", "no command recollect"),
        ("memory recollect", "no subcommand recollect"),
        ("memory update|updateq --help", None),
        ("ask question --deep", "no option --deep"),
        ("ask -- --deep", None),
        ("--version", None),
        ("--deep", "no option --deep"),
        ("COMMAND --help", None),
        ("memory … --json", None),
    ],
)
def test_a_command_line_is_held_against_the_program(line: str, wrong: str | None) -> None:
    assert mistake(line.split()) == wrong
