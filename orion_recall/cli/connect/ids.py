"""Resolves abbreviated ids: a unique prefix stands for the whole id, as in git."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from orion_recall.cli.output import notes, prose, visible
from orion_recall.errors import SettingsError

MIN_PREFIX = 4
_SHOWN = 5

PREFIX_HELP = f"or its first {MIN_PREFIX} or more characters, where no other begins so"


async def full_id(what: str, given: str, starting: Callable[[str, int], Awaitable[Sequence[str]]]) -> str | None:
    """The id that is given whole or by a prefix that only one has; None where there is none.

    `starting` gives up to so many ids that begin with a prefix, the equal one first. SettingsError, with up to five
    of them, where several ids begin so. An id that was given by a prefix is told on standard error.
    """
    found = await starting(given, _SHOWN + 1)
    if given in found:
        return given
    if len(given) < MIN_PREFIX or not found:
        return None
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN]) + (", and more" if len(found) > _SHOWN else "")
        raise SettingsError(f"{given!r} is the beginning of several {what} ids: {shown}; give more characters")
    prose(visible(f"{given} is {found[0]}"), to=notes())
    return found[0]
