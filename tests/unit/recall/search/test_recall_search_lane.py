from __future__ import annotations

from typing import Any

import pytest

from orion_recall.errors import InvalidMessage
from orion_recall.recall.search.lane import narrowed
from orion_recall.recall.search.requests import scope_of
from orion_recall.setting_values import LaneUse
from orion_recall.values import Scope
from tests.samples.recall_fakes import profile, query

TENANT = "default"


def scope(use: LaneUse, by: dict[str, Any] | None = None, **fields: Any) -> Scope | None:
    """What is searched; None where the lane means nothing."""
    wide = profile(**(by or {}))
    made = narrowed(query(**fields), wide, use)
    return None if made is None else scope_of(made, wide, TENANT)


@pytest.mark.parametrize("use", ["ignore", "tag", "scope"])
@pytest.mark.parametrize("lane", [None, "", 7, ["chat"]])
def test_what_is_no_lane_means_nothing(use: LaneUse, lane: Any):
    assert scope(use, lane=lane) is None


def test_a_lane_is_ignored_unless_the_settings_say_otherwise():
    assert scope("ignore", lane="session", session_id="s") is None


@pytest.mark.parametrize("tags", [[], ["chat"], ["chat", "harbour"]])
def test_a_lane_may_be_a_tag_that_memories_must_have(tags: list[str]):
    assert scope("tag", lane="chat", options={"tags": tags}) == Scope(tenant=TENANT, tags=("chat",))


def test_a_lane_and_other_tags_cannot_be_searched_at_once():
    with pytest.raises(InvalidMessage, match=r"payload\.lane: it is a tag"):
        scope("tag", lane="chat", options={"tags": ["harbour"]})


def test_a_lane_that_is_a_tag_leaves_the_rest_of_the_scope_as_it_was():
    found = scope("tag", lane="chat", session_id="s", options={"scope": "session", "kinds": ["world"]})
    assert found == Scope(tenant=TENANT, session_id="s", kinds=("world",), tags=("chat",))


@pytest.mark.parametrize(
    ("lane", "options", "expected"),
    [
        ("session", {}, Scope(tenant=TENANT, session_id="s")),
        ("session", {"scope": "global"}, Scope(tenant=TENANT, session_id="s")),
        ("user", {"user": "u"}, Scope(tenant=TENANT, user_id="u")),
        ("session", {"scope": "session"}, Scope(tenant=TENANT, session_id="s")),
        ("global", {}, Scope(tenant=TENANT)),
        ("global", {"scope": "session"}, None),
        ("global", {"scope": "user", "user": "u"}, None),
        ("user", {"scope": "session", "user": "u"}, None),
        ("session", {"scope": "user", "user": "u"}, None),
        ("chat", {}, None),
    ],
    ids=str,
)
def test_a_lane_may_be_a_scope_and_then_only_narrows(lane: str, options: dict[str, Any], expected: Scope | None):
    assert scope("scope", lane=lane, session_id="s", options=options) == expected


def test_a_lane_does_not_widen_what_the_profile_searches():
    assert scope("scope", {"scope": "session"}, lane="global", session_id="s") is None
    assert scope("scope", {"scope": "session"}, lane="user", session_id="s", options={"user": "u"}) is None


def test_a_lane_that_is_a_scope_without_its_id_is_an_error_and_not_all_memories():
    with pytest.raises(InvalidMessage, match="session needs"):
        scope("scope", lane="session", session_id="")
