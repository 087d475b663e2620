"""YAML parsing with line numbers: one mapping per file, plain values, and errors for anything else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import cast

import yaml
from yaml.reader import ReaderError

Words = tuple[str, str]
"""What is wrong, and what to write instead ("" when there is nothing to suggest)."""

_MAX_DEPTH = 16
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # what PyYAML counts as one
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_TAG = "tag:yaml.org,2002:"


class Unreadable(Exception):
    """A text that is not one YAML mapping; `line` and `column` count from 0."""

    def __init__(self, words: Words, *, line: int = 0, column: int = 0) -> None:
        super().__init__(words[0])
        self.words, self.line, self.column = words, line, column


class UnreadableValue(Exception):
    """One value that cannot be read."""

    def __init__(self, words: Words) -> None:
        super().__init__(words[0])
        self.words = words


def shown(text: str) -> str:
    """`text` in back quotes, on one line, cut to a readable length."""
    flat = " ".join(text.split())
    return f"`{flat[:57]}...`" if len(flat) > 60 else f"`{flat}`"


def source_lines(content: bytes) -> list[str]:
    """The lines as YAML counts them; bytes that are not UTF-8 are replaced."""
    return _LINE_BREAK.split(content.decode("utf-8-sig", errors="replace"))


def is_null(node: yaml.Node) -> bool:
    """Whether nothing was written, or `null`."""
    return node.tag == _TAG + "null"


def is_mapping(node: yaml.Node) -> bool:
    """Whether the node holds keys, without a tag that makes it something else."""
    return isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map"


def compose_mapping(content: bytes) -> yaml.MappingNode:
    """The one mapping that `content` holds, as nodes with marks. Raises `Unreadable`.

    Aliases stay shared nodes: a walk over them needs a limit of its depth.
    """
    try:
        text = content.decode("utf-8-sig")
        _refuse_deep_nesting(text)
        root = yaml.SafeLoader(text).get_single_node()
    except UnicodeDecodeError as error:
        before = source_lines(content[: error.start])
        raise _at_end_of(before, ("this is not UTF-8", "save the file as UTF-8")) from error
    except ReaderError as error:
        before = source_lines(content.decode("utf-8-sig")[: error.position].encode())
        what = f"the control character U+{error.character:04X} is not allowed in YAML"
        raise _at_end_of(before, (what, "remove it")) from error
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, source_lines(content)) from error
    except (ValueError, OverflowError) as error:  # "\\UFFFFFFFF"
        raise Unreadable((f"a number in it is none of a character ({error})", "mend the escape \\U")) from error
    start = "start from profiles/example.yaml"
    if root is None:
        raise Unreadable(("the file is empty", start))
    if not isinstance(root, yaml.MappingNode) or not is_mapping(root):
        mark = root.start_mark
        raise Unreadable(("this is not a mapping of `key: value` lines", start), line=mark.line, column=mark.column)
    return root


def scalar_value(node: yaml.ScalarNode) -> str | int | float | bool | None:
    """The value as YAML 1.1 means it, less its octal, hexadecimal and base-60 numbers.

    A date stays the text it was written as. Raises `UnreadableValue`.
    """
    text = node.value
    match node.tag.removeprefix(_TAG):
        case "str" | "timestamp" | "value" | "merge":
            return text
        case "null":
            return None
        case "bool" if text.lower() in _BOOLEANS:
            return _BOOLEANS[text.lower()]
        case "int" if _INTEGER.fullmatch(text) and len(text) < 400:
            return int(text.replace("_", ""))
        case "float":
            try:
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError as error:
                raise _not_decimal(text) from error
        case "int":
            raise _not_decimal(text)
        case _:
            raise UnreadableValue((f"the tag {shown(node.tag)} does not fit {shown(text)}", "remove the tag"))


def _not_decimal(text: str) -> UnreadableValue:
    return UnreadableValue((f"{shown(text)} is no decimal number to YAML 1.1", "write plain decimal digits"))


def check_tag(node: yaml.Node) -> None:
    """Raises `UnreadableValue` for a tag that makes objects out of text."""
    name = node.tag.removeprefix(_TAG)
    if name == node.tag or name in ("binary", "set", "omap", "pairs") or "/" in name:
        raise UnreadableValue((f"the tag {shown(node.tag)} is not allowed here", "remove it"))


def _refuse_deep_nesting(text: str) -> None:
    """Stops before the composer, which recurses, meets thousands of nested brackets."""
    depth = 0
    parse = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]
    for event in parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"nested deeper than {_MAX_DEPTH} levels", problem_mark=event.start_mark
            )


def _at_end_of(lines: list[str], words: Words) -> Unreadable:
    return Unreadable(words, line=len(lines) - 1, column=len(lines[-1]))


def _not_yaml(error: yaml.MarkedYAMLError, lines: list[str]) -> Unreadable:
    problem, context = error.problem or "unreadable", error.context or ""
    # An unfinished key or quote is noticed too late: where it began is the context's mark.
    is_late = "could not find expected ':'" in problem or "quoted scalar" in context
    mark = (error.context_mark if is_late else None) or error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    words = _syntax_words(problem, lines[line] if line < len(lines) else "")
    return Unreadable(words, line=line, column=column)


def _syntax_words(problem: str, line: str) -> Words:
    indent = line[: len(line) - len(line.lstrip())]
    if "'\\t'" in problem or "\t" in indent:
        return "a tab stands where YAML wants spaces", "indent with spaces"
    if "another document" in problem:
        return "a second document begins here", "one file holds one profile"
    return f"this is not YAML: {problem}", "check colons, quotes and the indentation"
