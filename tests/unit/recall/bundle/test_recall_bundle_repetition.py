from __future__ import annotations

from orion_recall.recall.bundle.select import Said
from orion_recall.text.normal import stems

INVOICE = "Sent the invoice for the roof to Halden, 900 euros"


def test_the_same_in_other_words_repeats_and_another_of_the_kind_does_not():
    said = Said(stems({"invoice", "sent"}), most=0.7)
    said.add(INVOICE)
    assert said.repeats("The invoice of 900 euros was sent: Halden, roof")
    assert not said.repeats("Sent the invoice for the stairs to Orrin, 450 euros")


def test_words_of_the_question_are_no_repetition():
    asked = stems({"invoice", "sent", "halden", "euros"})
    said = Said(asked, most=0.7)
    said.add(INVOICE)
    assert not said.repeats("Sent Halden the second invoice, 300 euros")


def test_nothing_repeats_where_all_may_be_repeated_or_nothing_was_said():
    said = Said(frozenset(), most=1.0)
    said.add(INVOICE)
    assert not said.repeats(INVOICE)
    assert not Said(frozenset(), most=0.5).repeats(INVOICE)


def test_a_text_without_words_repeats_nothing():
    said = Said(frozenset(), most=0.5)
    said.add(INVOICE)
    assert not said.repeats("👍")
