from __future__ import annotations

from collections.abc import Mapping

from orion_recall.errors import SourceError
from orion_recall.interfaces import Source
from orion_recall.recall.search.further_lists import asks_of_others, reports_of_others, requests_of_speaker
from orion_recall.recall.understand.said_by import SaidBy
from orion_recall.values import Interval, Question, Scope, SearchRequest, SourceName
from tests.samples.recall_fakes import FakeSource, hit

HANA = SaidBy(name="Hana", speakers=("Hana",), names=("hana",), is_strict=True)
QUESTION = Question(text="t", dense_text="t", keyword_text="t", terms=frozenset(), now=0.0, text_hash="h")
SCOPE = Scope(tenant="t", since=50.0)
NAMES: tuple[SourceName, ...] = ("vector", "lexical", "rdf")
REQUESTS: Mapping[SourceName, SearchRequest] = {
    name: SearchRequest(question=QUESTION, scope=SCOPE, limit=10) for name in NAMES
}
DAYS = (Interval(100.0, 200.0, "date", "monday"), Interval(300.0, 400.0, "date", "wednesday"))
SINCE = (Interval(20.0, None, "open", "since"),)


def test_the_index_is_asked_for_the_persons_own_turns_of_that_time():
    said = SaidBy(name="Hana", speakers=("Hana",), names=("hana",), is_strict=True, intervals=DAYS)
    asked = requests_of_speaker(REQUESTS, said)
    for name in ("vector", "lexical"):
        assert asked[name].scope == Scope(tenant="t", since=100.0, until=400.0, speakers=("Hana",))
    assert asked["rdf"] == REQUESTS["rdf"]


def test_an_open_time_never_widens_the_scope():
    said = SaidBy(name="Hana", speakers=("Hana",), names=("hana",), is_strict=True, intervals=SINCE)
    assert requests_of_speaker(REQUESTS, said)["vector"].scope == Scope(tenant="t", since=50.0, speakers=("Hana",))


def test_other_questions_are_asked_as_they_are():
    preferred = SaidBy(name="Hana", speakers=("Hana",), names=("hana",))
    assert requests_of_speaker(REQUESTS, None) is REQUESTS
    assert requests_of_speaker(REQUESTS, preferred) is REQUESTS


async def test_reports_are_looked_for_among_what_others_say():
    vector = FakeSource("vector", [hit("a", 0.5)])
    lexical = FakeSource("lexical", errors=[SourceError("away")])
    sources: Mapping[SourceName, Source] = {
        "vector": vector,
        "lexical": lexical,
        "rdf": FakeSource("rdf", [hit("b", 0.5)]),
    }
    (report,) = await reports_of_others(sources, REQUESTS, HANA, timeout_s=5)
    assert (report.source, [one.key for one in report.hits]) == ("vector", [hit("a", 0.5).key])
    assert [request.scope.speakers for request in vector.requests] == [()]
    assert asks_of_others(HANA)
    assert not asks_of_others(None)
    assert await reports_of_others(sources, REQUESTS, HANA, timeout_s=0) == []
