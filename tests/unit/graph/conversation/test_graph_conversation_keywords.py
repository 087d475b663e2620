from __future__ import annotations

import pytest

from orion_recall.graph.conversation import turn_keywords


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("The BOILER in Ana's kitchen leaks.", {"boiler", "kitchen", "leaks"}),
        ("Remember what we discussed earlier? You said it's great.", set[str]()),
        ("It is at the sea.", set[str]()),
        ("Miles's boat, the boat!", {"miles", "boat"}),
        ("Der Kessler tropft", {"kessler", "tropft"}),
    ],
)
def test_keywords_are_longer_words_without_stop_words_and_without_words_of_looking_back(
    text: str, keywords: set[str]
):
    assert turn_keywords(text) == keywords
