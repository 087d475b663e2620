"""What a text tells only as having happened claims nothing that could be over."""

from __future__ import annotations

import pytest

from orion_recall.memory.told_changes.claims import happened_in
from orion_recall.memory.told_changes.clauses import sentences_of
from orion_recall.text.normal import words


@pytest.mark.parametrize(
    ("text", "happened"),
    [
        ("Sold two baskets off the back of the Volvo.", True),
        ("Moving day. Omar and the Volvo, five loads over to the mill.", True),
        ("Omar and the Volvo, five loads over to the mill.", False),
        ("Bought a Volvo.", False),
        ("Joined the Volvo club.", False),
        ("The Volvo is dying.", False),
        ("The Volvo coughed all the way. It needs a new clutch.", False),
        ("The Volvo coughed, as every Monday.", False),
        ("Drove the Volvo to the lake. We have a Volvo since May.", False),
    ],
)
def test_events_are_told_from_what_lasts(text: str, happened: bool) -> None:
    found = happened_in([words(one.casefold()) for one in sentences_of(text)], text.casefold())
    assert ("volvo" in found) is happened
