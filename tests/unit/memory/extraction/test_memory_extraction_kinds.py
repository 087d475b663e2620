from __future__ import annotations

import pytest

from orion_recall.memory.extraction.kinds import UNSURE, infer_kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("To restart the pump, first close valve 3, then press reset.", "procedure"),
        ("How to deliver: export mono WAV, call the file date-slug, drop it into the inbox.", "procedure"),
        ("Steps to reset the router:\n1. Unplug it.\n2. Wait a minute.", "procedure"),
        ("Always drain the boiler before you change the filter.", "procedure"),
        ("TODO: renew the passport", "task"),
        ("Remind me to call the dentist.", "task"),
        ("Don’t forget to water the plants.", "task"),
        ("We still need to sign the lease by Friday.", "task"),
        ("The invoices are due on 12 December.", "task"),
        ("The plan is to move the archive in spring.", "plan"),
        ("We plan to open a second shop.", "plan"),
        ("In my opinion the red one is better.", "opinion"),
        ("I prefer trains.", "opinion"),
        ("My favourite café is the one by the bridge.", "opinion"),
        ("I noticed that the crane stops when it rains.", "observation"),
        ("It seems the pump leaks.", "observation"),
        ("Postgres is a database that keeps tables.", "world"),
        ("The capital of Norway is Oslo.", "world"),
    ],
)
def test_what_a_text_says_plainly_is_its_kind(text: str, kind: str):
    guess = infer_kind(text)
    assert guess.kind == kind
    assert 0.75 <= guess.confidence < 1


@pytest.mark.parametrize(
    "text",
    [
        "We went to Bergen by train, and the fjord was covered in fog.",
        "Mira's boiler was replaced.",
        "Do I have to sign the lease by Friday?",
        "She said I think too much.",
        "The dentist has moved to Harbour Street.",
        "Thanks, that's kind of you!",
    ],
)
def test_everything_else_is_an_experience_and_said_to_be_unsure(text: str):
    assert infer_kind(text) == UNSURE == ("experience", 0.5)


def test_a_text_that_says_what_its_title_is_tells_of_the_world():
    river = "Tinnelva is 35 km long and flows from Lake Tinn to Heddalsvatnet."
    assert infer_kind(river, title="Tinnelva (river)") == ("world", 0.85)
    assert infer_kind("The Wenne springs near Obringhausen and is short.", title="The Wenne").kind == "world"
    assert infer_kind(river, title="Notes of a trip") == UNSURE
    assert infer_kind(river) == UNSURE
