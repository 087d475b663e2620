from __future__ import annotations

from orion_recall.recall.understand.question import understand
from orion_recall.recall.understand.summary import understood
from tests.samples.recall_fakes import NOW, profile, query


def test_times_are_told_in_utc_with_the_words_that_decided_them():
    asked = understand(
        query("When did Ana leave after May 2023?", options={"timezone": "+02:00"}),
        profile(),
        now=NOW,
        speakers=frozenset(),
    )
    interval = {"from": "2023-05-31T22:00:00Z", "until": None, "kind": "open", "words": "after May 2023"}
    time = {"intervals": [interval], "asks_when": True, "session": None, "of": "both", "widened": False}
    assert understood(asked)["time"] == time
    interval.pop("words")
    assert understood(asked, with_words=False)["time"] == time


def test_class_people_and_names_are_told_with_the_words_that_decided_them():
    asked = understand(
        query('How should bo and Mira Lund stage "The Grinder" in Oslo?'),
        profile(),
        now=NOW,
        speakers=frozenset({"Bo", "Ana"}),
    )
    assert understood(asked) == {
        "time": {"intervals": [], "asks_when": False, "session": None, "of": None, "widened": False},
        "class": "planning",
        "class_words": ["how should"],
        "shape": None,
        "people": ["Bo"],
        "entities": [
            {"name": "The Grinder", "kind": "quoted"},
            {"name": "Mira Lund", "kind": "capitalised"},
            {"name": "Oslo", "kind": "capitalised"},
            {"name": "Bo", "kind": "known"},
        ],
    }


def test_without_words_no_name_and_no_word_of_the_question_is_told():
    asked = understand(query("How should Bo tell Ana?"), profile(), now=NOW, speakers=frozenset({"Bo"}))
    assert understood(asked, with_words=False) == {
        "time": {"intervals": [], "asks_when": False, "session": None, "of": None, "widened": False},
        "class": "planning",
        "shape": None,
    }
