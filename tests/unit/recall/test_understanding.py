"""Understanding of a question: class, people, names, lists, chains, and what is searched for."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orion_recall.recall.report.decision import understood
from orion_recall.recall.understand.chains import chains, walks
from orion_recall.recall.understand.classes import Classified, classify
from orion_recall.recall.understand.people import SaidBy, asking_speaker, entities, named_speakers, said_by
from orion_recall.recall.understand.question import Understanding, expansions, understand
from orion_recall.recall.understand.shape import asks_for_list
from orion_recall.text.normal import content_words, words
from orion_recall.values import Chain, QueryClass
from orion_recall.when.times import times
from tests.samples.recall_fakes import NOW, profile, query


@pytest.mark.parametrize(
    ("text", "seed", "vias"),
    [
        ("What is Ana's sister's employer?", "Ana", [("sister", "employer"), ("sister",)]),
        ("Who is the employer of Ana's sister?", "Ana", [("sister", "employer")]),
        ("Where does the sister of Ana live?", "Ana", [("sister", "live"), ("sister",)]),
        ("Ana Miles's boss", "Ana Miles", [("boss",)]),
        ("What is Ana's home town?", "Ana", [("home", "town"), ("home town",), ("home",)]),
        ("Did you hear: Ana's old friend's brother?", "Ana", [("friend", "brother"), ("friend",)]),
    ],
)  # fmt: skip
def test_a_chain_begins_at_a_name_and_has_its_readings_longest_first(
    text: str, seed: str, vias: list[tuple[str, ...]]
):
    found = chains(text)
    assert {chain.seed for chain in found} == {seed}
    assert [chain.via for chain in found] == vias


@pytest.mark.parametrize(
    "text",
    ["", "What did Ana say?", "my sister's employer", "Ana's", "It's what Bo's", "Who's there?", "Let's go to Oslo",
     "the end of the year", "What is Ana? Boss of whom?"],
)  # fmt: skip
def test_other_questions_have_none(text: str):
    assert chains(text) == ()


SISTER_WORKS = (("sister", "work"), ("sister work",), ("sister",))


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("Who is my boss?", [("Bo Lind", ("boss",))]),
        ("Where does my sister work?", [("Bo Lind", via) for via in SISTER_WORKS]),
        ("Who conducts our choir?", [("Bo Lind", ("choir", "conducts"))]),
        ("the employer of my sister", [("Bo Lind", ("sister", "employer"))]),
        ("Who is my editor at Fjord Labs?", [("Bo Lind", ("editor",))]),
        ("my boss Ana's sister", [("Ana", ("sister",))]),
    ],
)  # fmt: skip
def test_my_is_said_of_the_one_who_asks(text: str, readings: list[tuple[str, tuple[str, ...]]]):
    assert [(chain.seed, chain.via) for chain in chains(text, "Bo Lind")] == readings


def test_hostile_texts_take_no_time():
    began = time.process_time()
    for text in ("Ana's " * 100_000, "A" * 1_000_000, "of the " * 100_000 + "Ana", "''''" * 100_000):
        chains(text)
    assert time.process_time() - began < 20


@pytest.mark.parametrize(
    ("text", "seed", "role"),
    [
        ("where do I live?", "Nora Quist", "home"),
        ("Where does Ana live now?", "Ana", "home"),
        ("And where does Ana Sol work?", "Ana Sol", "workplace"),
        ("whom do I report to?", "Nora Quist", "boss"),
        ("who does Ana work for?", "Ana", "employer"),
        ("who did I live with in Bergen?", "Nora Quist", "roommate"),
    ],
)
def test_a_clause_leads_from_its_subject_to_what_it_asks_for(text: str, seed: str, role: str) -> None:
    found = chains(text, "Nora Quist")
    assert [(one.seed, one.via) for one in found] == [(seed, (role,))]


CLOCK = datetime(2026, 11, 22, 12, tzinfo=UTC)


def asked(text: str) -> Classified:
    said = words(text)
    return classify(said, times(text, CLOCK), now=CLOCK.timestamp())


@pytest.mark.parametrize(
    ("text", "query_class", "deciding"),
    [
        ("Which colour is the boat?", "factual", ()),
        ("", "factual", ()),
        ("When did Ana sell the boat?", "temporal", ("when",)),
        ("What did we talk about in our first session?", "temporal", ("first session",)),
        ("What did Ana recommend for the crane?", "factual", ()),
        ("How to optimize PostgreSQL?", "procedural", ("how to",)),
        ("What are the steps to start the pump?", "procedural", ("steps to",)),
        ("Who is Ana's sister?", "relational", ("who is", "ana's sister")),
        ("Who is our contact in Oslo?", "relational", ("who is", "is our contact")),
        ("What does Bo still have to do?", "prospective", ("still have to",)),
        ("What do we know about Leonor?", "meta", ("what do we know about",)),
    ],
)
def test_a_question_has_the_class_that_its_words_say(text: str, query_class: QueryClass, deciding: tuple[str, ...]):
    assert asked(text) == Classified(query_class, deciding)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Ana Silva say about Fjord Labs?", ["Ana Silva", "Fjord Labs"]),
        ("What is Balthasar Rook's aunt called?", ["Balthasar Rook"]),
        ("Who taught at the University of Oslo in May?", ["University of Oslo"]),
        ("Tell me about Monday's plan", []),
        ("What will I do?", []),
        ('Who wrote "the grinder" for Oxna?', ["the grinder", "Oxna"]),
        ("what happened to the crane", []),
    ],
)
def test_names_are_quoted_first_then_capitalised(text: str, named: list[str]):
    assert [entity.name for entity in entities(text)] == named


NAMES = ["Melanie Jones", "Theodore", "Andrea", "Hermione", "Caroline", "李 Wei"]


@pytest.mark.parametrize("asked", ["Mel", "Melanie", "melanie jones", "Melanie's"])
def test_a_first_name_or_a_beginning_of_it_brings_the_whole_name(asked: str):
    found = {*words(asked), *expansions(f"Where is {asked} now?", NAMES, words(asked))}
    assert {"melanie", "jones"} <= found


@pytest.mark.parametrize(
    "question",
    [
        "Which parcels have I sent back?",
        "Which Spanish courses did we take?",
        "Which of my plants need shade?",
        "What have we spent so far?",
        "Who is in my climbing group?",
        "Who are my cousins?",
        "What are all the allergies in the house?",
        "List all invoices, please.",
        "Tell me all the films we saw",
        "Show me every receipt",
        "How many people work there?",
        "What do I keep in the cellar?",
        "Did Kai repair all the chairs?",
    ],
)
def test_a_question_for_all_of_a_kind_asks_for_a_list(question: str):
    assert asks_for_list(words(question))


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Which bus goes to the harbour?",
        "What is my address?",
        "Who are you?",
        "How do I reset the router?",
        "How many tablets does the dog get?",
        "How long is the bridge?",
        "What are the ingredients of the soup?",
        "What has Ben said?",
        "Why is he late all the time?",
        "What series did we watch?",
        "What news is there?",
        "What has happened so far?",
        "What is this?",
    ],
)
def test_a_question_for_one_answer_does_not(question: str):
    assert not asks_for_list(words(question))


@pytest.mark.parametrize(
    ("user", "speakers", "callers", "asker"),
    [
        ("Iris Lund", ["Iris Lund", "Bram"], (), "Iris Lund"),
        ("iris", ["Iris Lund", "Bram"], (), "Iris Lund"),
        ("Iris Falk", ["Iris Lund", "Bram"], (), None),
        ("u-17", ["Iris Lund", "Bram"], ("u-17=Iris Lund",), "Iris Lund"),
        ("u-17", ["Iris Lund", "Bram"], (), None),
        (None, ["user", "assistant"], (), "user"),
        (None, [], (), None),
    ],
)  # fmt: skip
def test_who_asks(user: str | None, speakers: list[str], callers: tuple[str, ...], asker: str | None):
    assert asking_speaker(user, frozenset(speakers), callers) == asker


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What does Bram Visser like?", ["Bram Visser"]),
        ("Who is Bram Tak?", []),
        ("What does bram like?", ["Bram Okafor", "Bram Visser"]),
        ("What do I see in Bram?", ["Bram Okafor", "Bram Visser"]),
    ],
)  # fmt: skip
def test_a_full_name_is_one_person_and_a_first_name_all_who_bear_it(text: str, named: list[str]):
    speakers = frozenset(["Bram Visser", "Bram Okafor", "Iris"])
    assert sorted(named_speakers(text, words(text), speakers)) == named


def test_a_name_in_a_script_without_spaces_is_found_whole_within_a_run():
    speakers = frozenset(["佐藤", "監視エージェント", "欧阳锋"])
    assert list(named_speakers("q", words("佐藤さんの休みは？"), speakers)) == ["佐藤"]
    assert list(named_speakers("q", words("监工欧阳锋说过什么"), speakers)) == ["欧阳锋"]
    assert not named_speakers("q", words("監視カメラと欧阳路"), speakers)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("What did Wanda say about the goats?", ["Dr. Wanda Osei"]),
        ("What did doctor Osei say?", ["Dr. Wanda Osei"]),
        ("What did Mr Tran say?", ["Mr Tran"]),
        ("What did Mrs Osei say?", []),
    ],
)
def test_a_speaker_with_a_title_is_called_without_it_or_by_it_and_the_last_name(text: str, named: list[str]):
    speakers = frozenset(["Dr. Wanda Osei", "Dr. Emil Brandt", "Mr Tran", "Mrs Tran", "Iris"])
    assert sorted(named_speakers(text, words(text), speakers)) == named


PLAIN = profile(enable_query_expansion=False)


def asked_of_question(fragment: str, *speakers: str, **fields: object) -> Understanding:
    return understand(query(fragment, **fields), PLAIN, now=NOW, speakers=frozenset(speakers))


@pytest.mark.parametrize(
    ("fragment", "named"),
    [
        ("What did Ana Silva mend?", "Ana Silva"),
        ("What did Ana mend?", None),
        ("What did Diaz mend?", None),
        ("What did Bo mend?", "Bo"),
        ("What will the doctor mend?", "The Doctor"),
        ("What will Will Ward mend?", "Will Ward"),
    ],
)
def test_the_one_speaker_whom_the_question_names_is_known(fragment: str, named: str | None):
    speakers = ("Ana Silva", "Ana Costa", "Dee Diaz", "Bo", "Bo Berg", "The Doctor", "Will Ward", "???")
    assert asked_of_question(fragment, *speakers).named_speaker == named


@given(st.text(min_size=1, max_size=200), st.frozensets(st.text(max_size=10), max_size=5))
def test_any_text_is_understood_the_same_way_twice(fragment: str, speakers: frozenset[str]):
    first = asked_of_question(fragment, *speakers)
    assert first == asked_of_question(fragment, *sorted(speakers, reverse=True))
    timed = {word for interval in first.question.time.intervals for word in words(interval.words)}
    assert first.question.terms >= set(content_words(fragment)) - timed
    assert first.named_speaker is None or first.named_speaker in speakers
    assert not first.question.text or first.question.dense_text


def test_days_begin_in_the_zone_of_the_options_else_at_the_offset_of_as_of_else_in_utc():
    starts = {
        name: asked_of_question("Who came yesterday?", options=options).question.time.intervals[0].start
        for name, options in (
            ("utc", None),
            ("offset", {"as_of": "2026-03-01T12:00:00+02:00"}),
            ("zone", {"as_of": "2026-03-01T12:00:00+02:00", "timezone": "Asia/Kolkata"}),
        )
    }
    midnight = NOW - NOW % 86400 - 86400
    # In Kolkata it is the next day already.
    later = midnight + 86400 - 5.5 * 3600
    assert starts == {"utc": midnight, "offset": midnight - 2 * 3600, "zone": later}


NOW_OF_BY = datetime(2026, 5, 20, 12, tzinfo=UTC)
SPEAKERS_OF_BY = frozenset(["Iris", "Bram Visser", "Bram Okafor", "Hana", "Assistant"])


def read(text: str, *, asker: str | None = "Iris", speakers: frozenset[str] = SPEAKERS_OF_BY) -> SaidBy | None:
    return said_by(text, times(text, NOW_OF_BY), speakers=speakers, asker=asker)


@pytest.mark.parametrize(
    ("text", "speakers", "topic", "intervals"),
    [
        ("What did Hana say last?", ["Hana"], "", []),
        ("What did Hana say about the kiln?", ["Hana"], "the kiln", []),
        ("What did Hana say on Monday about the kiln?", ["Hana"], "the kiln", ["Monday"]),
        ("What has Hana written since Sunday?", ["Hana"], "", ["since Sunday"]),
        ("Has Hana mentioned anything about the kiln?", ["Hana"], "the kiln", []),
        ("What was Hana's advice on the clay?", ["Hana"], "the clay", []),
        ("What did Bram say about the rent?", ["Bram Okafor", "Bram Visser"], "the rent", []),
        ("What did I promise Hana?", ["Iris"], "Hana", []),
        ("What did you suggest for Sunday?", ["Assistant"], "", ["Sunday"]),
    ],
)  # fmt: skip
def test_who_said_it_about_what_and_when(text: str, speakers: list[str], topic: str, intervals: list[str]):
    said = read(text)
    assert said is not None
    assert said.is_strict
    assert list(said.speakers) == speakers
    assert (said.topic, [interval.words for interval in said.intervals]) == (topic, intervals)


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("Which glaze did Hana recommend?", "Hana"),
        ("When did Hana mention the kiln?", "Hana"),
        ("What did Hana tell me to bring?", "Hana"),
        ("Where did I say I left the key?", "Iris"),
        ("How did you suggest firing the kiln?", "Assistant"),
    ],
)  # fmt: skip
def test_questions_for_something_in_what_was_said_only_prefer_the_speaker(text: str, speaker: str):
    said = read(text)
    assert said is not None
    assert (said.is_strict, said.speakers) == (False, (speaker,))


@pytest.mark.parametrize(
    "text",
    ["", "What did she say?", "Who told me about the kiln?", "Where does Hana work?", "What do I have to ask Hana?",
     "How should I tell Hana?", "What would you suggest?", "What did Hana paint?",
     "Did the mayor of the state win?", "Is everything from Hana here?", "Did everything from Hana arrive?"],
)  # fmt: skip
def test_other_questions_ask_for_nobodys_words(text: str):
    assert read(text) is None


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


NOW_OF_WALKS = datetime(2026, 11, 24, 12, tzinfo=UTC)
ALL = ("who", "related", "temporal")


def asked_of_walks(text: str, *, asker: str | None = "Mel", known: tuple[str, ...] = ()) -> tuple[Chain, ...]:
    return walks(text, ALL, named=entities(text, known), time=times(text, NOW_OF_WALKS), asker=asker)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("How is Ana related to Bo?", ("Ana", "Bo")),
        ("how are Ana and the pump connected?", ("Ana", "pump")),
        ("What connects Ana with Fjord Labs?", ("Ana", "Fjord Labs")),
        ("What is the relationship between Ana and \"Old Bo\"?", ("Ana", "Old Bo")),
        ("How do I know Bo?", ("Mel", "Bo")),
        ("How is Bo related to me?", ("Bo", "Mel")),
        ("What does Ana have to do with Umbra Works?", ("Ana", "Umbra Works")),
        ("What do Ana and Bo have in common?", ("Ana", "Bo")),
    ],
)  # fmt: skip
def test_a_relation_is_a_path_between_both_names(text: str, ends: tuple[str, str]):
    (found,) = asked_of_walks(text)
    assert (found.asks, (found.seed, found.target)) == ("related", ends)
