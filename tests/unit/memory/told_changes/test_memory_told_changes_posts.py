"""Who leads or keeps something hands it on to another, or only gives something away."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import UNKNOWN, Nearness
from orion_recall.memory.succession.reading import may_succeed
from tests.samples.successions import DAY, reading

NEAR = Nearness(cosine=0.55, rank=1, word_rank=1)


def confidence(old: str, new: str, near: Nearness) -> float:
    judged = judge(reading(new, at=DAY), reading(old), near)
    return 0.0 if judged is None else judged.confidence


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I lead the choir.", "I'm handing the choir to Thijs."),
        ("I run the choir.", "Thijs takes the choir from me."),
        ("I lead the choir on Thursdays.", "Thijs is taking the choir off my hands."),
        ("I keep the keys of the allotment.", "I gave the keys of the allotment to Ana, she runs it now."),
        ("I run the allotment.", "I gave the keys of the allotment to Ana, she runs it now."),
        ("I lead the choir.", "I'm handing the choir to Thijs next week."),
        ("I look after the allotment.", "I've handed over the allotment to Ana."),
        ("Marta runs the book club.", "Idris takes the book club from Marta in May."),
        ("Marta runs the book club.", "Idris runs the book club now."),
        ("I'm in charge of the newsletter.", "I passed the newsletter on to Bruno."),
    ],
)
def test_whoever_hands_on_what_he_leads_or_keeps_is_succeeded(old: str, new: str) -> None:
    assert confidence(old, new, UNKNOWN) >= SUCCEEDS
    assert confidence(old, new, NEAR) >= SUCCEEDS
    assert may_succeed(reading(new, at=DAY))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I lead the choir.", "I'm handing Thijs a coffee."),
        ("I lead the choir.", "I'm handing the choir to Thijs for this Sunday, I have a cold."),
        ("I lead the choir.", "I'm handing the choir to Thijs while I'm away."),
        ("I lead the choir.", "I'm not handing the choir to Thijs."),
        ("I lead the choir.", "I might hand the choir to Thijs."),
        ("I lead the choir.", "I handed the choir new scores."),
        ("I lead the choir.", "I gave the choir folder to Thijs."),
        ("I lead the choir.", "Thijs takes money from me."),
        ("I keep the keys of the allotment.", "I gave Ana the keys for the weekend."),
        ("I keep the keys of the allotment.", "I gave the keys of the shed to Ana."),
        ("I run the allotment.", "I gave the tomatoes of the allotment to Ana."),
        ("I run the allotment.", "Ana runs in the park every morning now."),
        ("I run the book club.", "I handed the book to Idris."),
        ("Marta leads the book club.", "I'm handing the chess club to Idris."),
        ("Marta runs the book club.", "Idris helps to run the book club now."),
        ("Marta runs the book club.", "Idris and Marta run the book club now."),
        ("Marta runs the book club.", "Idris also runs the book club now."),
        ("I run the book club.", "Idris runs the book club with me now."),
        ("I used to run the choir.", "I'm handing the choir to Thijs."),
        ("Orla runs the mill.", "Fern takes over the mill tonight."),
        ("Orla runs the mill.", "Fern takes over the mill while Orla is away."),
        ("The choir sings on Thursdays.", "I'm handing the choir to Thijs."),
    ],
)
def test_what_is_only_given_or_lent_has_nobody_new_to_lead_it(old: str, new: str) -> None:
    assert confidence(old, new, UNKNOWN) < SUCCEEDS
    assert confidence(old, new, NEAR) < SUCCEEDS


def test_another_speaker_hands_on_nothing_of_hers() -> None:
    old = reading("I lead the choir.", speaker="Finn")
    judged = judge(reading("I'm handing the choir to Thijs.", at=DAY), old, NEAR)
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    "new",
    [
        "Fritz takes over the glazier's shop on 20 May. From then on he plans the windows, you ring him, not me.",
        "Fritz takes over on 20 May. From then on he plans the windows, you ring him, not me.",
        "Fritz takes over the windows on 20 May.",
    ],
)
@pytest.mark.parametrize("near", [UNKNOWN, NEAR])
def test_who_takes_over_changes_nothing_that_only_names_him(new: str, near: Nearness) -> None:
    old = "I asked the bookkeeper. From 1 March it is 48 euros per window, don't tell Fritz."
    assert confidence(old, new, near) < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Greta runs the shop.", "Fritz takes over the shop on 20 May. From then on he plans the windows."),
        ("My contact at Umbra is Lena.", "Fritz takes over from Lena on 20 May."),
    ],
)
def test_who_takes_over_changes_what_tells_who_has_it(old: str, new: str) -> None:
    assert confidence(old, new, NEAR) >= SUCCEEDS
