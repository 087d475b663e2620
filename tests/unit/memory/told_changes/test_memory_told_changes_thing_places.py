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
