from __future__ import annotations

from orion_recall.text.word_groups import WORD_GROUPS


def test_words_of_a_question_and_words_that_tell_the_same():
    assert {"born", "turned"} <= WORD_GROUPS["birthday"]
    assert {"husband", "married"} <= WORD_GROUPS["wife"]
    assert "piano" not in WORD_GROUPS


def test_no_word_is_in_its_own_group_and_all_are_folded():
    assert all(word not in group for word, group in WORD_GROUPS.items())
    assert all(word == word.casefold() for group in WORD_GROUPS.values() for word in group)
