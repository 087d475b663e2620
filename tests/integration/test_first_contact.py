"""What a newcomer tries first, over stores of a few memories: the right one is first, and nothing is marked."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from serving import filled_stores

from orion_recall.contracts import MemoryV1, RecallQueryV1, read_message
from orion_recall.evaluation.trials import changes, fill, index_and_graph
from orion_recall.memory.record.compose import compose
from orion_recall.recall.pipeline import Recalled, recall
from orion_recall.serving.backends import Opened
from tests.stand_ins.patient_profiles import patient

BEGAN = datetime(2026, 1, 5, 9, tzinfo=UTC)
PROFILES = ("reflect.v1", "assist.light.v1", "deep.graph.v1")
# The older one, the newer one of another thing, and a question about the older one.
TOLD_APART = (
    ("The code of gate A is 1190.", "The code of gate B is 7325.", "What is the code of gate A?"),
    ("Invoice 118 was paid by card.", "Invoice 119 was paid by transfer.", "How was invoice 118 paid?"),
    (
        "The Turin office has nine desks.",
        "The Genoa office has four desks.",
        "How many desks has the Turin office?",
    ),
    ("The blue key opens the cellar.", "The green key opens the attic.", "What does the blue key open?"),
    ("Version 2.3 fixes the login loop.", "Version 2.4 fixes the export.", "What does version 2.3 fix?"),
    ("Flight KL 1702 leaves at 07:40.", "Flight KL 1706 leaves at 18:15.", "When does flight KL 1702 leave?"),
    ("Ticket PAY-31 moved to the next release.", "Ticket PAY-47 moved to the board.", "What about ticket PAY-31?"),
    ("My left knee hurts on stairs.", "My right shoulder hurts at night.", "When does my left knee hurt?"),
    ("Line 4 runs every ten minutes.", "Line 9 runs every half hour.", "How often does line 4 run?"),
    (
        "The debit card of Ines ends in 44.",
        "The credit card of Ines ends in 81.",
        "What does the debit card end in?",
    ),
)
SAID_BY_SEVERAL = (
    ({"Kim": 0, "Lou": 0, "Mo": 0}, "I am for the earlier train.", "Who is for the earlier train?"),
    ({"Pia": 3, "Rolf": 5}, "The printer on the second floor is jammed.", "Who said that the printer is jammed?"),
)
NO_SPEAKERS = (
    ("ISO 27001: suppliers are reviewed every year.", "What does ISO 27001 say about suppliers?"),
    ("Makefile: the target ship builds and uploads.", "What does the Makefile say about uploads?"),
    ("The handbook says that travel is booked by Tess.", "What does the Handbook say about travel?"),
    ("RFC 9110 defines the methods of HTTP.", "What does RFC 9110 say about methods?"),
    ("Grafana: alerts of the mail queue go to Ops.", "What does Grafana say about the mail queue?"),
)
NEVER_WITHHELD = (
    ("Jonas took a post at the aquarium in Bergen.", "Where does Jonas live?"),
    ("Window seats, and no nuts in anything.", "What do I prefer?"),
    ("Lila's boss is Marta. Marta lives in Porto.", "What city does Lila's boss live in?"),
    ("The boiler was serviced by Hagen & Sons.", "Who looks after the heating?"),
)
SEATS = {"Nils": "I like the balcony best.", "Orla": "I like the front row best.", "Pau": "The back row, always."}
SOUPS = {
    "Nils": "Pea soup is my favourite.",
    "Orla": "No soup for me, thank you.",
    "Pau": "I would eat fish soup daily.",
}
NAMED = [
    (told, name, question)
    for told, questions in (
        (
            SEATS,
            ("Where does {} like to sit?", "{}'s favourite seat in the theatre", "What did {} say about seats?"),
        ),
        (SOUPS, ("Which soup does {} like?", "What did {} say about soup?")),
    )
    for name in told
    for question in questions
]
WALKS = ("We walked to the mill.", "We walked to the lighthouse.", "We walked to the old quarry.")
# The days are 5, 15 and 25 January 2026; what is first, and what must not be.
BOUNDS = (
    ("Where did we walk before 15 January?", {"0"}),
    ("Where did we walk after 15 January?", {"2"}),
    ("where have we walked since 15 January", {"1", "2"}),
    ("Where did we walk until 15 January 2026?", {"0", "1"}),
    ("Where did we walk after the 5th of January?", {"1", "2"}),
    ("where did we walk before January 25?", {"0", "1"}),
    ("Where did we walk after 5 January and before 25 January?", {"1"}),
)
# What lies ahead on 5 April.
COMING = (
    ("The fair begins on 7 April.", "The audit begins on 9 April.", "The course begins on 16 April."),
    (
        ("what begins after 9 April?", "2"),
        ("what begins before 9 April?", "0"),
        ("Which event starts after 9 April?", "2"),
    ),
)
DUE = (
    (
        "Hugo has to hand in the tax papers until 15 April.",
        "Hugo handed in the rent papers before 15 April last year.",
    ),
    ("What does Hugo have to do until 15 April?", "What will Hugo hand in before 20 April?"),
)
UNSPACED = (
    "佐藤さんは京都の図書館で働いています。",
    "仓库的钥匙在前台的抽屉里。",
    "서버 점검은 매주 목요일 새벽 두 시에 한다.",
    "ร้านกาแฟปิดวันจันทร์",
)
COMPATIBLE = (
    "Ｍｏｄｅｌ ＸＴ９０ stands in the third rack.",
    "The ﬁle of the oﬃce ﬂoor plan is lost.",
    "ｶﾒﾗ is in the bag.",
    "Model YT90 is sold out.",
)
IN_SCRIPTS = (
    (UNSPACED, "図書館で働いているのは誰ですか", "0"),
    (UNSPACED, "钥匙在哪里", "1"),
    (UNSPACED, "서버 점검은 언제?", "2"),
    (UNSPACED, "ร้านกาแฟ", "3"),
    (COMPATIBLE, "XT90", "0"),
    (COMPATIBLE, "ＹＴ９０", "3"),
    (COMPATIBLE, "office floor file", "1"),
    (COMPATIBLE, "カメラ", "2"),
)
# Who said it, in which role, and what; a question, and what must be among the first two.
BUILD = (
    ("user", "Why is the build slow?"),
    ("tool", "ci: cache miss for node_modules, restored 0 bytes, install took 6m12s"),
    ("assistant", "The build is slow because the cache key has the date in it."),
    ("user", "Can you fix the build?"),
    ("assistant", "I took the date out of the cache key; the build takes 90 seconds now."),
    ("user", "Great. And the deploy?"),
    ("assistant", "The deploy waits for an approval of the platform team."),
)
OF_BUILD = (
    ("cache key build slow", {"2", "4"}),
    ("why was the build slow?", {"2"}),
    ("how long did install take in ci?", {"1"}),
    ("what does the deploy wait for?", {"6"}),
)
BUGS = (
    "BUG-11 Crash on save. Severity: high. Owner: Pavel. State: open.",
    "BUG-12 Wrong colour. Severity: low. Owner: Pavel. State: fixed.",
    "BUG-13 Login loops. Severity: high. Owner: Mira. State: open.",
    "BUG-14 Typo. Severity: low. Owner: Mira. State: open.",
    "BUG-15 Slow search. Severity: medium. Owner: Omar. State: waiting.",
)
OF_BUGS = (
    ("high severity bugs", {"0", "2"}),
    ("Which bugs does Mira own?", {"2", "3"}),
    ("Pavel's open bugs", {"0"}),
    ("fixed bugs", {"1"}),
    ("what is waiting?", {"4"}),
)
# The first three have the tag incident, and are of January.
TAGGED = (
    "The login page returned 500 for half an hour.",
    "The payment queue was stuck overnight.",
    "DNS was down.",
    "We had pancakes at the team breakfast.",
    "A new coffee grinder was bought.",
    "The office got a plant.",
)
OF_TAGGED = (
    ("Which incidents were there in January?", {"0", "1", "2"}),
    ("incidents in January", {"0", "1", "2"}),
    ("list all incidents", {"0", "1", "2"}),
)
MINUTES = (
    "Retro of team {}. Present: Ilse, Mats, Ravi, Noor. We spoke about the outage, which took longer than it "
    "should have, because the runbook was out of date and nobody had the rights for the console. All is well. {}"
)
TO_DO = (
    "To do: Ilse rewrites the runbook by Wednesday and shows it to everybody. Ravi asks security for the rights. "
    "Mats books the room for the next retro. Noor buys a new whiteboard and markers, since the old ones are dry."
)
OF_MINUTES = (
    ("What has Noor to do?", "Noor buys a new whiteboard"),
    ("action item of Mats", "books the room"),
    ("What is Ravi's task from the retro?", "asks security"),
    ("Who rewrites the runbook?", "Ilse rewrites the runbook"),
)
PROCEDURES = (
    (
        "Changing the belt of the press\n- Switch the press off and wait until the wheel stands still.\n"
        "- Loosen the four nuts of the guard with the long key.\n- Lift the old belt from the rear wheel first.\n"
        "- Lay the new belt on the front wheel and turn slowly by hand.\n- Switch on, and listen for a minute.",
        "How do I change the belt of the press?",
        "listen for a minute",
    ),
    (
        "Runbook: certificate renewal. Step 1: request the certificate with the make target renew. Step 2: copy "
        "both files to the vault. Step 3: restart the gateway one node at a time. Step 4: tell the channel ops.",
        "certificate renewal steps",
        "Step 4: tell the channel ops",
    ),
    (
        "First you fold the dough three times and let it rest in a cold place for one hour. Then you roll it to "
        "the thickness of a coin. After that you cut circles, fill them with cheese, and close them with "
        "a fork. Finally you boil them in salted water for six minutes and serve them with butter.",
        "How do I make the cheese dumplings?",
        "serve them with butter",
    ),
)
OTHERS = ("The bakery is closed on Mondays.", "Olaf plays chess with Runa.", "The hedge was cut in spring.")


class Store:
    """Small stores, each a tenant of its own that is filled once, and questions to them."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened
        self._tenants: list[list[MemoryV1]] = []

    async def asked(self, told: list[MemoryV1], question: str, profile: str, **options: object) -> Recalled:
        if told not in self._tenants:
            self._tenants.append(told)
            tenant = f"tenant-{len(self._tenants) - 1}"
            await fill(index_and_graph(self._opened), changes([compose(one, tenant) for one in told]))
        tenant = f"tenant-{self._tenants.index(told)}"
        query = read_message(RecallQueryV1, {"fragment": question, "options": options}, "payload")
        now = (BEGAN + timedelta(days=90)).timestamp()
        return await recall(query, patient(profile), self._opened.sources, tenant=tenant, now=now, timeout_s=60)


@pytest.fixture(scope="module")
async def store() -> AsyncGenerator[Store]:
    async with filled_stores([]) as stores:
        yield Store(stores)


def days(*texts: str) -> list[MemoryV1]:
    """Memories of ten days apart, the first of the fifth of January."""
    return [
        MemoryV1(id=str(place), text=text, occurred_at=BEGAN + timedelta(days=10 * place))
        for place, text in enumerate(texts)
    ]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("older", "newer", "question"), TOLD_APART)
async def test_what_is_told_apart_by_a_name_or_number_neither_ends_nor_replaces_the_other(
    store: Store, older: str, newer: str, question: str, profile: str
) -> None:
    found = await store.asked(days(older, newer, *OTHERS), question, profile)
    first = found.selection.items[0]
    assert first.scored.memory.id == "0"
    assert all(item.scored.ended is None and item.scored.succeeds is None for item in found.selection.items)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("speakers", "text", "question"), SAID_BY_SEVERAL)
async def test_what_several_people_say_names_them_all(
    store: Store, speakers: dict[str, int], text: str, question: str, profile: str
) -> None:
    said = [
        MemoryV1(id=name, speaker=name, text=text, occurred_at=BEGAN + timedelta(days=day))
        for name, day in speakers.items()
    ]
    found = await store.asked([*said, *days(*OTHERS)], question, profile)
    assert {item.scored.memory.id for item in found.selection.items} >= speakers.keys()
    assert all(name in found.rendered for name in speakers)


@pytest.mark.parametrize("profile", PROFILES)
async def test_the_last_of_equal_days_is_there_and_so_is_what_is_denied(store: Store, profile: str) -> None:
    found = await store.asked(
        days(*["Gave the dog its drops."] * 5), "When did the dog last get its drops?", profile
    )
    assert "4" in {item.scored.memory.id for item in found.selection.items}
    texts = (
        "Close the east valve before the pump starts.",
        "Never close the east valve before the pump starts.",
        "Close the west valve before the pump starts.",
    )
    found = await store.asked(days(*texts), "Which valve is closed before the pump starts?", profile)
    assert {item.scored.memory.id for item in found.selection.items} == {"0", "1", "2"}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("told", "name", "question"), NAMED)
async def test_who_is_named_is_first(
    store: Store, told: dict[str, str], name: str, question: str, profile: str
) -> None:
    said = [MemoryV1(id=speaker, speaker=speaker, text=text) for speaker, text in told.items()]
    found = await store.asked(said, question.format(name), profile)
    assert found.selection.items[0].scored.memory.id == name


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("question", "inside"), BOUNDS)
async def test_a_bound_is_meant_as_it_is_said(store: Store, question: str, inside: set[str], profile: str) -> None:
    found = await store.asked(days(*WALKS), question, profile)
    assert {item.scored.memory.id for item in found.selection.items[: len(inside)]} == inside


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("told", "question", "first"),
    [
        *((COMING[0], question, first) for question, first in COMING[1]),
        *((DUE[0], question, "0") for question in DUE[1]),
    ],
)
async def test_a_bound_of_what_lies_ahead_is_the_coming_one(
    store: Store, told: tuple[str, ...], question: str, first: str, profile: str
) -> None:
    said = datetime(2026, 3, 20, 9, tzinfo=UTC)
    memories = [MemoryV1(id=str(place), text=text, mentioned_at=said) for place, text in enumerate(told)]
    found = await store.asked(memories, question, profile)
    assert found.selection.items[0].scored.memory.id == first


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("told", "question", "first"), IN_SCRIPTS)
async def test_words_are_found_in_scripts_without_spaces_and_in_compatible_forms(
    store: Store, told: tuple[str, ...], question: str, first: str, profile: str
) -> None:
    found = await store.asked(days(*told), question, profile)
    assert found.selection.items[0].scored.memory.id == first


@pytest.mark.parametrize("at", [15_000, 27_000, 95_000])
@pytest.mark.parametrize("question", ["quillon-9 relay password", "Where is the password of the quillon-9 relay?"])
async def test_what_stands_deep_in_a_long_text_is_found_and_shown(store: Store, question: str, at: int) -> None:
    filler = "the copper ladder, on a window; at the meadow we signal, in barley. " * 1500
    told = f"{filler[:at]} The password of the quillon-9 relay is in the green envelope. {filler[:1000]}"
    found = await store.asked([MemoryV1(id="long", text=told), *days(*OTHERS)], question, "reflect.v1")
    assert found.selection.items[0].scored.memory.id == "long"
    assert "The password of the quillon-9 relay is in the green envelope." in found.rendered


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("question", "right"), OF_BUILD)
async def test_what_an_assistant_or_a_tool_said_is_found_as_well(
    store: Store, question: str, right: set[str], profile: str
) -> None:
    told = [
        MemoryV1(id=str(place), text=text, speaker=role, metadata={"role": role})
        for place, (role, text) in enumerate(BUILD)
    ]
    found = await store.asked(told, question, profile)
    assert right <= {item.scored.memory.id for item in found.selection.items[:2]}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("question", "right"), OF_BUGS)
async def test_values_of_fields_in_a_text_count(store: Store, question: str, right: set[str], profile: str) -> None:
    found = await store.asked(
        [MemoryV1(id=str(place), text=text) for place, text in enumerate(BUGS)], question, profile
    )
    assert {item.scored.memory.id for item in found.selection.items[: len(right)]} == right


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("question", "right"), OF_TAGGED)
async def test_tags_count(store: Store, question: str, right: set[str], profile: str) -> None:
    told = [
        one.model_copy(update={"tags": ("incident",) if place < 3 else ()})
        for place, one in enumerate(days(*TAGGED))
    ]
    found = await store.asked(told, question, profile)
    assert {item.scored.memory.id for item in found.selection.items[: len(right)]} == right


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("question", "shown"), OF_MINUTES)
async def test_the_window_of_a_long_text_has_what_was_asked_for(
    store: Store, question: str, shown: str, profile: str
) -> None:
    others = [f"{MINUTES.format(place, 'Nothing was decided.')} We meet in room {place}." for place in range(8)]
    found = await store.asked(days(MINUTES.format("Heron", TO_DO), *others), question, profile)
    assert shown in found.rendered


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("question", ["What needs a new coat of paint?", "What did Bo say about the gate?"])
async def test_most_lines_are_whole_and_none_is_a_shred(store: Store, question: str, profile: str) -> None:
    told = [
        MemoryV1(
            id=f"{name} {thing}",
            speaker=name,
            text=f"The {thing} of building {place} needs a new coat of paint before the winter comes and the "
            "scaffolding goes to the next site, which is the school at the river.",
        )
        for place, (name, thing) in enumerate(product(("Ana", "Bo", "Cem"), ("door", "roof", "gate", "wall")))
    ]
    lines = (await store.asked(told, question, profile)).rendered.splitlines()
    cut = [line for line in lines if "…" in line]
    assert len(cut) <= len(lines) / 3
    assert all(len(line.split()) >= 10 for line in cut)


@pytest.mark.parametrize("profile", PROFILES)
async def test_what_is_left_of_the_budget_lengthens_what_was_cut(store: Store, profile: str) -> None:
    steps = [f"{place}. Turn the wheel of pump {place} to the left until it clicks." for place in range(1, 7)]
    found = await store.asked(days(f"How to drain the dock. {' '.join(steps)}", *OTHERS), "drain the dock", profile)
    assert all(step in found.rendered for step in steps)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("text", "question", "last"), PROCEDURES)
async def test_a_procedure_is_shown_to_its_last_step_however_its_steps_are_told(
    store: Store, text: str, question: str, last: str, profile: str
) -> None:
    found = await store.asked(days(text, *OTHERS), question, profile)
    assert last in found.rendered


@pytest.mark.parametrize("question", ["How do I drain the dock?", "steps to drain the dock"])
async def test_the_steps_of_a_procedure_stay_together_among_many_memories(store: Store, question: str) -> None:
    steps = [f"{place}. Turn the wheel of pump {place} to the left until it clicks." for place in range(1, 8)]
    told = days(
        *(
            f"The dock of pier {pier} was dry on the morning of day {pier}, and boats lay there."
            for pier in range(20)
        )
    )
    procedure = MemoryV1(id="steps", kind="procedure", text=f"How to drain the dock. {' '.join(steps)}")
    found = await store.asked([procedure, *told], question, "reflect.v1")
    assert all(step in found.rendered for step in steps)
    assert len(found.selection.items) > 2


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ({"title": "OPS-12 Renew the lease", "text": "OPS-12: Renew the lease. The agent waits."}, 1),
        ({"title": "OPS-12", "text": "OPS-12: renew the lease."}, 1),
        ({"title": "OPS-12", "text": "The lease of OPS-12 ends."}, 2),
        ({"speaker": "Ravi", "text": "Ravi: the lease ends."}, 1),
        ({"speaker": "Ravi", "text": "**Ravi:** the lease ends."}, 1),
        ({"speaker": "Ravi", "text": "_Ravi_ : the lease ends."}, 1),
        ({"title": "OPS-12", "text": "# OPS-12: the lease ends."}, 1),
        ({"speaker": "Ravi", "text": "Ravi signs the lease."}, 2),
        ({"title": "Lease", "speaker": "Ravi", "text": "We sign it on Friday."}, 1),
    ],
)
async def test_a_title_or_a_speaker_stands_once(store: Store, told: dict[str, str], shown: int) -> None:
    name = (told.get("title") or told["speaker"]).split()[0]
    found = await store.asked(
        [MemoryV1.model_validate({"id": "0", **told})], "When does the lease end?", "reflect.v1"
    )
    assert found.rendered.count(name) == shown


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("text", "question"), NO_SPEAKERS)
async def test_what_has_never_spoken_is_searched_for_as_any_name(
    store: Store, text: str, question: str, profile: str
) -> None:
    found = await store.asked(days(text, *OTHERS), question, profile)
    assert found.selection.items[0].scored.memory.id == "0"
    assert "not_said_by" not in found.selection.dropped


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("text", "question"), NEVER_WITHHELD)
async def test_the_nearest_is_handed_over_however_unlikely_it_answers(
    store: Store, text: str, question: str, profile: str
) -> None:
    found = await store.asked(days(text, *OTHERS), question, profile)
    assert found.selection.items[0].scored.memory.id == "0"
    assert found.withheld is None


@pytest.mark.parametrize("fragment", ["?", "…", "🙂", "\u200b", "\0", " \n", "the", "x", "-- ;"])
async def test_a_fragment_without_a_word_has_nothing_and_says_so(store: Store, fragment: str) -> None:
    found = await store.asked(days(*OTHERS), fragment, "reflect.v1")
    assert found.selection.items == ()
    if fragment.strip():
        assert found.withheld is not None
        assert found.withheld.reason == "no_words"


@pytest.mark.parametrize("profile", PROFILES)
async def test_what_was_said_after_the_time_asked_as_of_is_not_seen(store: Store, profile: str) -> None:
    told = days("Oda works for the ferry company.", "Oda works for the museum.", *OTHERS)
    told.append(MemoryV1(id="undated", text="Oda works at night."))
    asked_as_of = (BEGAN + timedelta(days=5)).isoformat()
    found = await store.asked(told, "Where does Oda work?", profile, as_of=asked_as_of)
    assert {item.scored.memory.id for item in found.selection.items} == {"0", "undated"}
