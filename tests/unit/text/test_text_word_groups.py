from __future__ import annotations

from orion_recall.text.word_groups import VALUES, WORD_GROUPS


def test_words_of_a_question_and_words_that_tell_the_same():
    assert {"born", "turned"} <= WORD_GROUPS["birthday"]
    assert {"husband", "married"} <= WORD_GROUPS["wife"]
    assert {"teaches", "lessons", "learns"} <= WORD_GROUPS["teacher"]
    assert "piano" not in WORD_GROUPS


def test_no_word_is_in_its_own_group_and_all_are_folded():
    assert all(word not in group for word, group in WORD_GROUPS.items())
    assert all(word == word.casefold() for group in WORD_GROUPS.values() for word in group)


def test_a_value_is_known_by_its_form():
    assert VALUES["phone"].search("ask leila, 0113 496 0188 works")
    assert VALUES["number"].search("+44 (0)20 7946 0000")
    assert VALUES["phone"].search("curtis takes the desk monday, his number is 306-555-0187.")
    assert VALUES["email"].search("write to leila@council.example")
    for text in (
        "600 per day, brings own food",
        "she takes 35 euros an hour",
        "18/h",
        "2.400 € a month",
        "£8 an hour",
    ):
        assert VALUES["wage"].search(text), text
    for text in ("600 people came that day", "he works 40 hours", "two days a week"):
        assert not VALUES["wage"].search(text), text
    for text in ("on 2026-11-16 at 09:30", "18,500 by march", "chapter 0123", "version 0.2026", "room 12 34"):
        assert not VALUES["phone"].search(text), text
