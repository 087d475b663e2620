"""What a line of a bundle must not have: marks that begin a tag, a head, a role in brackets, a field or a fence."""

from __future__ import annotations

import re

_MARKUP = re.compile(
    r"""<[|/!?] | <\s*[^\W\d] | <\s*/ | `` | \{\s*[{%#] | \$\{ | \[\s*(?:\d{4}-|undated\b)
      | (?<![a-zA-Z0-9_])\[\s*[^\W\d][\w-]*: | \[/?[A-Z_]{3,30}\]
      | (?<![a-zA-Z0-9_\[])\[\s*(?:system|assistant|user)\s*\]
      | [＜＞｀｛｝｜［］]""",
    re.VERBOSE,
)


def markup_in(line: str) -> list[str]:
    return _MARKUP.findall(line)
