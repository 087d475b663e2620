"""The "use to" of "How did Ana use to travel?", which says when, and stands in no memory of then."""

from __future__ import annotations

import re
from typing import Final

# "How did my sister use to travel?", and as people write it: "how did we used to". With "what" it may be a tool.
_USE_TO: Final = re.compile(
    r"(?<!\S)(did(?:n['’]t)? (?:(?!get |become )[^\s,;.?!]+ ){1,4}?)used? to (?=[^\W\d])", re.IGNORECASE
)
_WITH_WHAT: Final = re.compile(r"(?:what|which)\b", re.IGNORECASE)


def without_use_to(text: str) -> str:
    """The question without the "use to" of "How did Ana use to", which says when, and stands in no memory of then.

    "What did Ana use to" keeps it: that may be a tool.
    """
    return text if _WITH_WHAT.match(text) else _USE_TO.sub(r"\1", text)
