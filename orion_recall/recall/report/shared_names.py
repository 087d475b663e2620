"""Shared first names: a note in the explanation where a first name in a question is that of several people."""

from __future__ import annotations

import re

from orion_recall.recall.types import Recalled
from orion_recall.text.normal import one_line, without_possessive, words

_MOST_READ = 40
_FULL_NAME = re.compile(r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)+")


def first_names_shared(recalled: Recalled) -> list[str]:
    """A sentence for each first name that stands alone in the question and is that of several people.

    Known people are the speakers that the question names, and the names in the first memories ranked.
    """
    understood = recalled.understood
    if understood is None:
        return []
    asked = [without_possessive(word) for word in words(understood.question.text)]
    speakers = {speaker for item in recalled.ranked if (speaker := item.memory.speaker)}
    names = {*understood.people, *speakers}
    for item in recalled.ranked[:_MOST_READ]:
        names.update(name for name in item.memory.entities if _FULL_NAME.fullmatch(name))
    bearers: dict[str, set[str]] = {}
    for name in names:
        parts = words(name)
        if len(parts) > 1 and parts[0] in asked:
            bearers.setdefault(parts[0], set()).add(name)
    return [
        f"{first.capitalize()} may be {_listed(sorted(people))}: the question says the first name alone, "
        "so all of them are looked for."
        for first, people in sorted(bearers.items())
        if len(people) > 1 and not any(_is_asked(words(name), asked) for name in people)
    ]


def _is_asked(name: list[str], asked: list[str]) -> bool:
    return any(asked[place : place + len(name)] == name for place in range(len(asked)))


def _listed(names: list[str]) -> str:
    shown = [one_line(name) for name in names]
    return f"{', '.join(shown[:-1])} or {shown[-1]}"
