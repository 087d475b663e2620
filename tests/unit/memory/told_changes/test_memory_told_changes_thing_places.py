"""A thing in another place, another rent and another landlord are told from those of others."""

from __future__ import annotations

import pytest

from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import Nearness
from tests.samples.successions import DAY, reading

NEAR = Nearness(cosine=0.55, rank=1, word_rank=1)


def confidence(old: str, new: str) -> float:
    judged = judge(reading(new, at=DAY), reading(old), NEAR)
    return 0.0 if judged is None else judged.confidence


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The drill is in the cellar.", "The drill is in the shed now."),
        ("The ladder hangs in the garage.", "The ladder hangs behind the shed now."),
        ("The toolbox is under the stairs.", "The toolbox lives in the van now."),
        ("The key is under the pot.", "I moved the key to the shed."),
        ("The loom stands in the attic.", "We carried the loom down to the cellar."),
        ("We keep the drill in the cellar.", "We keep the drill in the shed now."),
        ("The workshop is in the barn.", "The workshop is in the old mill now."),
        ("We pay 850 euros for the flat.", "The rent went up to 900."),
        ("The flat costs us 850 a month.", "Rent went up to 900."),
        ("Our landlord is Mr. Bosch.", "The landlord of the house is now Mrs. Ek."),
    ],
)
def test_another_place_rent_or_landlord_succeeds_the_one_before(old: str, new: str) -> None:
    assert confidence(old, new) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The drill is in the cellar.", "The drill is in the cellar now."),
        ("The drill is in the cellar.", "The saw is in the shed now."),
        ("The drill is in the cellar.", "His drill is in the shed now."),
        ("The drill is in the cellar.", "The drill is in use now."),
        ("The drill is in the cellar.", "The drill is in a bad state now."),
        ("The drill is in the cellar.", "We should move the drill to the shed."),
        ("The box of nails is in the cellar.", "The box of screws is in the shed now."),
        ("The spare key is under the pot.", "The key is in the car now."),
        ("The piano is in the hall.", "They carried the piano into the church for the concert."),
        ("Our landlord is Mr. Bosch.", "The landlord of the pub is now Mrs. Ek."),
        ("Our landlord is Mr. Bosch.", "My sister's landlord is now Mrs. Ek."),
        ("My brother's landlord is Mr. Bosch.", "Our landlord is now Mrs. Ek."),
        ("The rent is 850 a month.", "The garage rent went up to 90."),
        ("The rent is 850 a month.", "The rent of the garage went up to 90."),
        ("The rent is 850 a month.", "I rent a bike for 12 euros a day now."),
        ("We paid 850 euros for the sofa in the flat.", "The rent went up to 900."),
        ("The flat costs us 850 a month.", "My sister's rent went up to 900."),
    ],
)
def test_what_is_of_another_thing_or_of_others_succeeds_nothing(old: str, new: str) -> None:
    assert confidence(old, new) < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The spare key is under the geranium.", "Moved the spare key, it's in the meter box."),
        ("spare key of my flat lives under the geranium", "moved the spare key, it is now behind the blue pipe"),
        ("Lent the ladder to Franz.", "Franz brought the ladder back."),
        ("lent Graziella my sewing machine, the singer", "Graziella brought the singer back, needle broken"),
        ("I borrowed Ana's drill.", "Returned the drill to Ana today."),
        ("gave Derlis the long hook, the one with the red tape", "brought your hook back, it's behind the door"),
    ],
)
def test_what_was_moved_or_came_back_succeeds_where_it_was(old: str, new: str) -> None:
    assert confidence(old, new) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Lent the ladder to Franz.", "Franz brought the saw back."),
        ("Lent the ladder to Franz.", "Franz has not brought the ladder back."),
        ("The ladder is in the shed.", "Franz brought the ladder back."),
        ("Gave the key to Ana.", "Ana gave the book back."),
        ("Ana Bauer is in the garden.", "Ana Bauer is in the office now."),
    ],
)
def test_other_things_that_come_back_succeed_nothing(old: str, new: str) -> None:
    assert confidence(old, new) < SUCCEEDS


def test_whoever_had_it_brings_it_back() -> None:
    old = reading("gave Derlis the long hook, the one with the red tape", speaker="Nidia")
    new = reading("brought your hook back, it's behind the door", speaker="Derlis", at=DAY)
    judged = judge(new, old, NEAR)
    assert judged is not None
    assert judged.confidence >= SUCCEEDS
