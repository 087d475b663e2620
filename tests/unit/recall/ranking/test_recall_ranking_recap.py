from __future__ import annotations

from orion_recall.recall.ranking.order import in_recap, substance
from orion_recall.scoring.candidates import Candidate
from orion_recall.values import MemoryView
from tests.samples.recall_fakes import NOW, key, view

LONG = (
    "We agreed with Umbra Works that the new pump comes on 3 July, and that it costs 2,400 euros with the fitting."
)
SHORT = "The pump is in the shed behind the mill."


def made(*memories: MemoryView) -> list[str]:
    return [item.memory.id for item in in_recap([(Candidate(key=key(one.id)), one) for one in memories])]


def test_what_tells_more_comes_before_what_tells_less_and_chatter_last():
    memories = (
        view("thanks", "Thank you so much!", ts=NOW, session_id="one", chatter=True),
        view("short", SHORT, ts=NOW + 1, session_id="two"),
        view("long", LONG, ts=NOW + 2, session_id="three"),
    )
    assert made(*memories) == ["long", "short", "thanks"]


def test_each_session_has_its_turn():
    memories = [view(f"a{place}", f"{LONG} {place}", ts=NOW + place, session_id="a") for place in range(4)]
    memories += [view(f"b{place}", f"{LONG} {place}", ts=NOW + 10 + place, session_id="b") for place in range(2)]
    assert made(*memories) == ["b0", "a0", "b1", "a1", "a2", "a3"]


def test_without_sessions_each_day_has_its_turn():
    day = 86_400.0
    memories = [view(f"a{place}", f"{LONG} {place}", ts=NOW + place) for place in range(3)]
    memories += [view("b0", f"{LONG} 0", ts=NOW + 2 * day)]
    assert made(*memories)[:2] == ["b0", "a0"]


def test_the_parts_add_up_to_the_score():
    (item,) = in_recap([(Candidate(key=1), view("a", LONG, ts=NOW, session_id="one"))])
    assert item.parts == {"substance": substance(item.memory), "turn": 1.0}
    assert item.score == round((2 * item.parts["substance"] + 1.0) / 3, 6)


def test_a_question_tells_half():
    assert substance(view("a", "Did Umbra Works send the new pump?")) * 2 == substance(
        view("a", "Did Umbra Works send the new pump.")
    )
    assert substance(view("a", "Ok, thanks!", chatter=True)) == 0.0
