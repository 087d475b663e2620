"""Command lines on the pages, held against the commands and options that `orion-recall` has."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from docs.tools.page import Page
from orion_recall.cli.main import COMMANDS, load

_PROGRAM = ("orion-recall", ".venv/bin/orion-recall")
_SEPARATORS = frozenset("|&;()<>")
_ASSIGNMENT = re.compile(r"[A-Z_]+=")
_PREFIXES = ("exec", "time", "do", "then", "!")
_PLACEHOLDER = re.compile(r"[A-Z_.…<>\[\]{}]+.*|.*…")


def mistakes(page: Page) -> Iterator[str]:
    """What a page says of the program that is not so, one line for each mistake."""
    for line in command_lines(page):
        if (wrong := mistake(line)) is not None:
            yield f"{page.name}: `orion-recall {' '.join(line)}`: {wrong}"


def command_lines(page: Page) -> Iterator[Sequence[str]]:
    """The words after `orion-recall`, of every call in a shell block or in `code`."""
    for block in page.blocks:
        if block.language == "sh":
            yield from _calls(block.text)
    for span in page.spans:
        first, _, rest = span.partition(" ")
        if first in _PROGRAM or _ASSIGNMENT.match(first):
            yield from _calls(span)
        elif first in COMMANDS and (" --" in span or _names_a_subcommand(first, rest)):
            yield from _calls(f"orion-recall {span}")


def mistake(words: Sequence[str]) -> str | None:
    """Why `orion-recall` would not take these words; None when the command and all its options are there."""
    if not words or words[0].startswith("-"):
        return None if not words or words[0] in ("--help", "--version") else f"no option {words[0]}"
    if _PLACEHOLDER.fullmatch(words[0]):
        return None
    if words[0] not in COMMANDS:
        return f"no command {words[0]}"
    command, rest = _command(words[0]), list(words[1:])
    while subcommands := _subcommands(command):
        if not rest or rest[0].startswith("-") or _PLACEHOLDER.fullmatch(rest[0]):
            return None
        name = rest.pop(0)
        for one in name.split("|"):
            if one not in subcommands:
                return f"no subcommand {one}"
        command = subcommands[name.split("|")[0]]
    return _wrong_option(command, rest)


def _wrong_option(command: Any, words: Sequence[str]) -> str | None:
    options = {option: one for one in command.params for option in (*one.opts, *one.secondary_opts)}
    options = {name: one for name, one in options.items() if name.startswith("-")}
    following = iter(words)
    for word in following:
        name, given, _ = word.partition("=")
        if name == "--":
            return None
        if not name.startswith("-") or name == "-" or name == "--help" or re.match(r"-\d", name):
            continue
        if name not in options:
            return f"no option {name}"
        if not given and not options[name].is_flag:
            next(following, None)
    return None


def _calls(text: str) -> Iterator[Sequence[str]]:
    """The words of each call of the program in a piece of shell code."""
    for command in _simple_commands(text.replace("\\\n", " ")):
        words = list(command)
        while words and (_ASSIGNMENT.match(words[0]) or words[0] in _PREFIXES):
            words.pop(0)
        if words and words[0] in _PROGRAM:
            yield words[1:]


def _simple_commands(text: str) -> Iterator[Sequence[str]]:
    # A comment takes the end of its line with it: hence a separator at the beginning of each line.
    reader = shlex.shlex(text.replace("\n", "\n;"), posix=True, punctuation_chars="|&;()<>")
    reader.whitespace_split = True
    words: list[str] = []
    try:
        for word in reader:
            if set(word) <= _SEPARATORS:
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:  # a quotation that does not end: an apostrophe in a span that is no command
        pass
    yield words


@cache
def _command(name: str) -> Any:
    return load(name)


def _subcommands(command: Any) -> Mapping[str, Any]:
    return getattr(command, "commands", None) or {}


def _names_a_subcommand(name: str, rest: str) -> bool:
    return bool(re.match(r"[a-z]+\b(?![.=(])", rest)) and bool(_subcommands(_command(name)))
