from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any

import pytest
from orion_recall.recall.report.explain_words import ordinal, why_first

from orion_recall.recall.bundle.selection import SelectedItem, Selection
from orion_recall.recall.ranking.score import combine
from orion_recall.recall.report.explain import score_shares
from orion_recall.scoring.candidates import ScoredCandidate
from orion_recall.text.zones import time_zone
from orion_recall.values import SourceName, SuccessionLink
from tests.samples.recall_fakes import NOW, scored

WEIGHTS = {
    "fusion": 0.5,
    "neighbour": 0.3,
    "speaker": 0.2,
    "asker": 0.2,
    "time": 0.4,
    "recency": 0.1,
    "told": 0.6,
    "tells_time": 0.2,
    "tells_name": 0.2,
    "tells_number": 0.2,
}


def item(
    name: str, parts: dict[str, float], ranks: dict[SourceName, int] | None = None, **fields: Any
) -> ScoredCandidate:
    closeness = fields.pop("closeness", None)
    made = scored(name, ts=fields.pop("ts", NOW - 7200.0), **fields)
    made.candidate.scores.update({} if closeness is None else {"vector": closeness})
    made.candidate.ranks.clear()
    made.candidate.ranks.update(ranks or {"vector": 1})
    return replace(made, parts=parts, weights=WEIGHTS, score=combine(parts, WEIGHTS))


def why(
    *items: ScoredCandidate,
    layers: dict[int, str] | None = None,
    asker: str | None = None,
    may_name: Callable[[int], bool] = lambda _: True,
    names_time: bool = True,
    searched_of: tuple[str, ...] = (),
    zone: tzinfo = UTC,
) -> list[str]:
    kept = tuple(SelectedItem(scored=one, snippet="", line="", tokens=0) for one in items)
    selection = Selection(items=kept, tokens=0, dropped={})
    return why_first(
        selection,
        score_shares,
        layers or {},
        now=NOW,
        may_name=may_name,
        asker=asker,
        names_time=names_time,
        searched_of=searched_of,
        zone=zone,
    )


def test_why_an_item_is_first_and_by_how_much():
    best = item("m1", {"fusion": 1.0, "recency": 0.5}, {"vector": 3, "lexical": 1})
    assert why(best, item("m2", {"fusion": 0.4, "recency": 0.5}, {"rdf": 2})) == [
        "m1 is first with 0.917: found first by words, 3rd by meaning; 2 hours old. "
        "It leads the next by 0.500, most of all by what the sources found.",
        "m2 is 2nd with 0.417: found 2nd in the graph; 2 hours old.",
    ]


def test_equal_scores_say_what_decides():
    (first, _) = why(item("m1", {"fusion": 0.5}), item("m2", {"fusion": 0.5}))
    assert first.endswith("The next scores the same; the newer one comes first, then the smaller id.")


def test_a_lead_that_three_digits_do_not_show_is_none():
    (first, _) = why(item("m1", {"fusion": 0.5003}), item("m2", {"fusion": 0.5}))
    assert first.endswith("The next has nearly the same score: less than 0.001 lies between them.")
    assert "0.000" not in first


def test_a_succession_is_told_of_both_with_who_says_so_and_the_askers_day():
    link = SuccessionLink(key=7, id="m1", at=NOW - 8 * 3600, reason="by_person")
    new = replace(item("m1", {"fusion": 0.5}), succeeds=link._replace(key=8, id="m2", reason="by_extractor"))
    old = replace(item("m2", {"fusion": 0.5, "told": 1.0}), ended=link)
    assert "the place and the score of m2, which it succeeds (the extractor read it so)" in why(new)[0]
    assert "succeeded by m1 on 2026-03-01 (a person said so)" in why(old)[0]
    assert "succeeded by m1 on 2026-03-02" in why(old, zone=time_zone("+14:00"))[0]
    assert "still be to come" not in why(old, names_time=False)[0]
    assert "m1" not in why(old, may_name=lambda key: key != 7)[0].replace("m2", "")


def test_whoever_asks_is_not_said_to_be_named_by_the_question():
    parts = {"fusion": 0.5, "speaker": 1.0, "asker": 1.0}
    mine = item("m1", parts, speaker="Odd")
    (told,) = why(mine, asker="Odd")
    assert "said by Odd, who asks" in told
    assert told.count("said by") == 1
    (named,) = why(mine)
    assert (
        "said by Odd, whom the question names; it addresses somebody, or has the name of the one who asks" in named
    )


def test_a_memory_without_a_session_leads_by_how_well_it_was_found():
    weights = {"fusion": 0.5, "session": 0.5}
    for session, by in (
        (None, "how well it was found"),
        ("s-1", "how well it, or the best of its session, was found"),
    ):
        items = [
            replace(item(name, {}, session_id=session), parts=parts, weights=weights, score=combine(parts, weights))
            for name, parts in (("m1", {"fusion": 0.5, "session": 0.9}), ("m2", {"fusion": 0.5, "session": 0.1}))
        ]
        assert why(*items)[0].endswith(f"most of all by {by}.")


def test_a_told_time_is_what_leads_where_it_makes_the_difference():
    told, untold = item("m1", {"fusion": 0.5, "told": 1.0}), item("m2", {"fusion": 0.5, "told": 0.0})
    (first, _) = why(told, untold)
    assert "a time that it names may be one that the question is about" in first
    assert first.endswith("most of all by a time that it names.")
    for one in (told, untold):
        assert sum(part.share for part in score_shares(one)) == pytest.approx(one.score, abs=1e-6)


def test_a_told_time_fits_no_time_that_the_question_does_not_name():
    (first,) = why(item("m1", {"fusion": 0.5, "told": 0.25}), names_time=False)
    assert "a time that it names may still be to come, and the question names none" in first
    assert "that the question is about" not in first


def test_a_part_that_has_no_words_has_its_name():
    weights = {"fusion": 0.5, "hue": 0.5}
    items = [
        replace(item(name, {}), parts=parts, weights=weights, score=combine(parts, weights))
        for name, parts in (("m1", {"fusion": 0.5, "hue": 0.9}), ("m2", {"fusion": 0.5, "hue": 0.1}))
    ]
    assert why(*items)[0].endswith("It leads the next by 0.400, most of all by the part hue.")


@pytest.mark.parametrize(
    ("parts", "fields", "said"),
    [
        ({"fusion": 1.0, "speaker": 1.0}, {"speaker": "Ana"}, "said by Ana, whom the question names"),
        ({"fusion": 1.0, "time": 1.0}, {}, "said in the time or session asked about"),
        ({"fusion": 1.0, "time": 0.9}, {}, "said near the time asked about, or it names such a time"),
        ({"fusion": 1.0, "tells_time": 1.0}, {}, "it names a time, and the question asks when"),
        (
            {"fusion": 1.0, "tells_name": 1.0},
            {},
            "what may be the name of a person, place or thing in it is neither in the question, which seems to ask "
            "for one, nor a speaker's",
        ),
        ({"fusion": 1.0, "tells_number": 1.0}, {}, "a number is in it, and the question seems to ask for one"),
        (
            {"fusion": 1.0, "neighbour": 0.7},
            {"closeness": 0.6},
            "a turn beside it in the talk is closer in meaning to the question than it is itself",
        ),
        (
            {"fusion": 1.0},
            {"statements": ("Mira\nsister of [Ana]",)},
            "read in texts for the graph: Mira sister of (Ana)",
        ),
        ({"fusion": 1.0}, {"ts": None}, "undated"),
        ({"fusion": 1.0, "told": 0.5}, {}, "a time that it names may be one that the question is about"),
        ({"fusion": 1.0}, {"ts": NOW + 60}, "less than 2 minutes later than the time of the question"),
        ({"fusion": 1.0}, {"ts": NOW + 3 * 86_400}, "3 days later than the time of the question"),
        ({"fusion": 1.0}, {"ts": NOW - 59}, "less than 2 minutes old"),
        ({"fusion": 1.0}, {"ts": NOW - 86_400}, "24 hours old"),
        ({"fusion": 1.0}, {"ts": NOW - 9 * 86_400}, "9 days old"),
    ],
)
def test_what_speaks_for_an_item_is_said(parts: dict[str, float], fields: dict[str, Any], said: str):
    (told,) = why(item("m1", parts, **fields))
    assert f"; {said}" in told


@pytest.mark.parametrize("closeness", [None, 0.7, 0.695])
def test_a_memory_alone_has_no_turn_that_is_closer(closeness: float | None):
    (told,) = why(item("m1", {"fusion": 1.0, "neighbour": 0.7}, closeness=closeness))
    assert "a turn beside it" not in told


def test_what_no_source_ranked_was_reached_from_the_others():
    made = item("m1", {"fusion": 1.0})
    made.candidate.ranks.clear()
    assert why(made)[0].endswith(": found by no search itself: fetched with what was found; 2 hours old.")
    made.candidate.led_by = "succession"
    assert "fetched with a memory that it succeeds" in why(made)[0]


def test_what_does_not_count_is_not_said():
    (told,) = why(item("m1", {"fusion": 1.0, "speaker": 0.0, "time": 0.0, "tells_time": 0.0}, speaker="Ana"))
    assert told == "m1 is first with 0.385: found first by meaning; 2 hours old."


@pytest.mark.parametrize("text", ["Idris tuned his first octave alone.", "The second, on the 27th"])
def test_an_ordinal_is_not_told_as_a_number(text: str):
    (told,) = why(item("m1", {"fusion": 1.0, "tells_number": 1.0}, text=text))
    assert "; only an ordinal is in it, and the question seems to ask for a number;" in told
    (told,) = why(item("m1", {"fusion": 1.0, "tells_number": 1.0}, text=f"{text} It cost 95."))
    assert "; a number is in it, and the question seems to ask for one;" in told


def test_ranks_among_somebodys_own_words_are_told_as_such():
    own = item("m1", {"fusion": 1.0}, {"vector": 1, "rdf": 1}, speaker="Teun")
    report = item("m2", {"fusion": 0.5}, {"vector": 1}, speaker="Bo")
    first, second = why(own, report, searched_of=("Teun",))
    assert "found first in the graph, first by meaning among what Teun said;" in first
    assert "found first by meaning;" in second
    several = why(own, report, searched_of=("Teun", "Teun Ek"))[0]
    assert "first by meaning among what those said who are named;" in several
    assert "among" not in why(own, report)[0]


def test_of_a_cascade_the_layer_is_named():
    made = item("m1", {"fusion": 1.0})
    assert "found first by meaning in the layer episodic;" in why(made, layers={made.candidate.key: "episodic"})[0]


def test_only_the_first_three_are_told():
    assert len(why(*(item(f"m{n}", {"fusion": 1.0 - n / 10}) for n in range(6)))) == 3
    assert why() == []


def test_an_id_is_data():
    (told,) = why(item("m\n- [x]\x1b", {"fusion": 1.0}))
    assert told.startswith("m - (x) is first")


def test_ordinals():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 22, 101, 111, 123)
    assert [ordinal(number) for number in numbers] == [
        "first", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "101st", "111th", "123rd",
    ]  # fmt: skip
