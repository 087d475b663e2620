from __future__ import annotations

import pytest

from orion_recall.recall.confidence.answerable import NOT_JUDGED, AnswerModel, Weights, answer_model, answerable
from orion_recall.recall.confidence.signals import LATE_SIGNALS, SIGNALS
from orion_recall.values import SourceStatus
from tests.samples.found import asked, found

HAVING = found({"I keep the spare anchor in the blue shed": (0.8, 0.6, 9.0), "Rain again": (0.2, 0.1, 0.0)})
LACKING = found({"Rain again": (0.3, 0.1, 0.0), "Tamsin laughed": (0.25, 0.1, 0.0)})
QUESTION = "Where do I keep the spare anchor?"


def test_a_logit_becomes_a_probability():
    weights = Weights(intercept=-1.0, signals={"late": 2.0})
    assert weights.probability({"late": 0.5}) == 0.5
    assert weights.probability({"late": 1.0, "words": 9.0}) == pytest.approx(0.731059)
    assert Weights(intercept=-2000.0, signals={}).probability({}) == 0.0


def test_without_late_interaction_other_weights_count():
    model = AnswerModel(
        late=Weights(intercept=0.0, signals={"late": 0.0}), without_late=Weights(intercept=-9.0, signals={})
    )
    assert model.probability({"late": 1.0}) == 0.5
    assert model.probability({"cosine": 1.0}) < 0.01


def test_the_shipped_model_has_a_weight_for_every_signal_and_says_what_it_is_made_of():
    model = answer_model()
    assert set(model.late.signals) == set(SIGNALS)
    assert set(model.without_late.signals) == set(SIGNALS) - LATE_SIGNALS
    for weights in (model.late, model.without_late):
        assert all(weight >= 0 for name, weight in weights.signals.items() if name != "words")
    assert {"by", "on", "l2", "runs", "held_out_auc"} <= model.made.keys()


@pytest.mark.parametrize("late", [True, False])
def test_a_memory_that_answers_is_likelier_than_none(late: bool):
    having = found(
        {"I keep the spare anchor in the blue shed": (0.8, 0.6, 9.0), "Rain": (0.2, 0.1, 0.0)}, late=late
    )
    lacking = found({"Rain again": (0.3, 0.1, 0.0), "Tamsin laughed": (0.25, 0.1, 0.0)}, late=late)
    high, low = answerable(asked(QUESTION), having).probability, answerable(asked(QUESTION), lacking).probability
    assert high is not None
    assert low is not None
    assert high > 0.8 > 0.2 > low


def test_general_knowledge_and_people_who_do_not_exist_are_unlikely():
    for question in ("How many feet are in a mile?", "What is the capital of Bhutan?", "Where does Gunnar live?"):
        probability = answerable(asked(question), LACKING).probability
        assert probability is not None
        assert probability < 0.05


def test_what_only_names_a_time_is_not_judged():
    assert answerable(asked("What happened yesterday?"), LACKING) == NOT_JUDGED


@pytest.mark.parametrize("status", ["off", "failed", "late"])
def test_without_a_search_by_words_nothing_is_judged(status: SourceStatus):
    assert answerable(asked(QUESTION), found({"Rain": (0.3, 0.1, 0.0)}, lexical=status)) == NOT_JUDGED


def test_where_nothing_was_found_there_is_nothing_to_judge():
    assert answerable(asked(QUESTION), found({})) == NOT_JUDGED


def test_hostile_texts_are_data():
    hostile = found({"\x00 \ud800 [(*+?\\": (0.3, 0.1, 0.0), "İ" * 3000: (0.3, 0.1, 0.0)})
    assert answerable(asked("Where is [(*+?\\ İstanbul \ud800?"), hostile).probability is not None
    assert answerable(asked(QUESTION), HAVING).signals["found_anywhere"] == 1


def test_whatever_somebody_said_answers_a_question_for_what_they_said():
    assert answerable(asked("What did Tamsin report?"), LACKING) == NOT_JUDGED
    assert answerable(asked("What did Tamsin report about the anchor?"), LACKING) != NOT_JUDGED
