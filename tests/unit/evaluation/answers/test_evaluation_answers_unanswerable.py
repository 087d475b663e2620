from __future__ import annotations

from orion_recall.evaluation.answers.unanswerable import asks_for_something, speakers_of, unanswerable
from orion_recall.evaluation.dataset import JudgedQuery
from orion_recall.values import Memory
from tests.samples.recall_fakes import profile


def memory(conversation: str, name: str, speaker: str | None) -> Memory:
    return Memory(
        tenant=conversation,
        id=name,
        text="a text",
        kind="experience",
        text_hash="",
        content_hash="",
        speaker=speaker,
    )


def judged(name: str, conversation: str, text: str, *evidence: str, scored: bool = True) -> JudgedQuery:
    return JudgedQuery(
        id=name,
        conversation=conversation,
        text=text,
        category="none",
        evidence=frozenset(evidence),
        asked_at=None,
        scored=scored,
        line=1,
    )


SPEAKERS = speakers_of(
    [
        memory("c1", "1", "Tamsin Reed"),
        memory("c1", "2", "Tamsin Reed"),
        memory("c1", "3", "Oskar"),
        memory("c1", "4", "assistant"),
        memory("c2", "1", "Gunnar"),
        memory("c2", "2", None),
    ]
)
QUERIES = [
    judged("q1", "c1", "Where did Tamsin Reed meet Oskar's boss?", "1"),
    judged("q2", "c1", "Nothing answers this", scored=True),
    judged("q3", "c1", "Not scored", "1", scored=False),
    judged("q4", "c2", "What did Gunnar buy?", "1"),
]


def test_the_speakers_of_a_conversation_without_the_assistant():
    assert SPEAKERS == {"c1": ["Tamsin Reed", "Oskar"], "c2": ["Gunnar"]}


def test_questions_are_asked_elsewhere_with_the_names_of_people_there():
    made = unanswerable(SPEAKERS, QUERIES, SPEAKERS, count=9, seed=1)
    texts = {line["query_id"]: line["query"] for line in made}
    assert texts["c2<q1"] == "Where did Gunnar meet Gunnar's boss?"
    assert texts["c1<q4"] in ("What did Tamsin buy?", "What did Oskar buy?")
    assert len(made) == 2, "only what something answers in its own conversation"
    assert all(line["evidence"] == [] for line in made)
    assert unanswerable(SPEAKERS, QUERIES, SPEAKERS, count=9, seed=1) == made


def test_where_nobody_speaks_names_stay():
    made = unanswerable({"c3": []}, QUERIES, SPEAKERS, count=1, seed=0)
    assert len(made) == 1
    assert made[0]["query"] in {query.text for query in QUERIES}


def test_a_question_that_only_names_a_time_has_an_answer_everywhere():
    asked = [judged("q", "c1", text, "1") for text in ("What did Oskar do yesterday?", "What did Oskar paint?")]
    assert [asks_for_something(query, SPEAKERS, profile()) for query in asked] == [False, True]
