"""The values of a profile's sections."""

from __future__ import annotations

from orion_recall.profile.section_values import section_values
from tests.samples.recall_fakes import profile

PROFILE = profile()


def test_they_are_those_of_the_section_and_made_once():
    section = PROFILE.ranking
    assert section_values(section) == section.model_dump()
    assert section_values(section) is section_values(section)


def test_a_changed_copy_has_values_of_its_own():
    before = section_values(PROFILE.ranking)
    changed = PROFILE.ranking.model_copy(update={"fusion": 0.123})
    assert section_values(changed)["fusion"] == 0.123
    assert section_values(PROFILE.ranking) == before


def test_sections_that_are_gone_give_their_values_to_no_other():
    for weight in range(500):  # far more than are kept: ids are used again
        section = PROFILE.ranking.model_copy(update={"fusion": weight / 500})
        assert section_values(section)["fusion"] == weight / 500


def test_weights_that_one_recall_changes_are_not_those_of_the_next():
    weighty = PROFILE.model_copy(update={"time": PROFILE.time.model_copy(update={"past_factor": 3.0})})
    before = weighty.weights(reranked=False)
    assert weighty.weights(reranked=False, time_decides=True)["time"] == 3 * before["time"]
    assert weighty.weights(reranked=False) == before
