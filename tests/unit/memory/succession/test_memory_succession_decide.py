"""Successions are told from look-alikes: judged pairs, and what decides single ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orion_recall.memory.succession import decide
from orion_recall.memory.succession.decide import SUCCEEDS, judge
from orion_recall.memory.succession.nearness import Nearness
from orion_recall.memory.told_changes.clauses import heard_in
from orion_recall.memory.told_changes.values import values_of
from orion_recall.text.normal import words
from tests.samples.successions import DAY, reading
from tests.samples.timing import grows_linearly

PAIRS = Path(__file__).parents[3] / "data" / "successions" / "pairs.jsonl"


def confidence(old: str, new: str, **more: Any) -> float:
    judged = judge(reading(new, at=DAY, **more), reading(old))
    return 0.0 if judged is None else judged.confidence


def test_sixty_successions_are_told_from_eighty_four_look_alikes() -> None:
    pairs = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    assert sum(pair["succeeds"] for pair in pairs) == 60
    assert len(pairs) == 144
    right = wrong = missed = 0
    for pair in pairs:
        old, new = pair["old"], pair["new"]
        judged = judge(
            reading(new["text"], speaker=new["speaker"], at=DAY), reading(old["text"], speaker=old["speaker"])
        )
        is_said = judged is not None and judged.confidence >= SUCCEEDS
        right += is_said and pair["succeeds"]
        wrong += is_said and not pair["succeeds"]
        missed += not is_said and pair["succeeds"]
    assert right / (right + wrong) >= 0.9
    assert right / (right + missed) >= 0.7


def test_only_a_newer_memory_of_the_same_tenant_succeeds() -> None:
    old, new = "The meeting is on Monday.", "The meeting was moved to Tuesday."
    assert confidence(old, new) >= SUCCEEDS
    assert judge(reading(new), reading(old, at=DAY)) is None
    assert judge(reading(new, at=None), reading(old)) is None
    assert judge(reading(new, at=DAY, tenant="other"), reading(old)) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The rent for the flat in Elm Street is 940 euros a month.",
         "I switched from the gym to climbing; the hall is called Granite and costs 55 euros a month."),
        ("We use the new coating from Vester instead of the old one, the adhesion failed twice.",
         "The design review with Vester is moved from 24 November to 1 December, 14:00."),
        ("Mira keeps the ledger in green ink.", "Mira switched from cello to oboe."),
    ],
)  # fmt: skip
def test_what_leaves_one_thing_says_nothing_new_of_another(old: str, new: str) -> None:
    near = Nearness(cosine=0.55, rank=1, word_rank=1)
    judged = judge(reading(new, at=DAY), reading(old), near)
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I go to the gym on Mondays, it is 40 euros a month.", "I switched from the gym to climbing."),
        ("I drink Earl Grey every morning.", "I switched from tea to coffee."),
        ("The design review is on 24 November.", "The design review is moved from 24 November to 1 December."),
        ("The design review is on Tuesday.", "The design review is moved from 24 November to 1 December."),
        ("I live in a flat by the river.", "I moved from London to Paris."),
    ],
)
def test_what_leaves_a_thing_succeeds_what_tells_of_it(old: str, new: str) -> None:
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.55, rank=1, word_rank=1))
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


def test_questions_and_repetitions_succeed_nothing() -> None:
    assert confidence("The meeting is on Monday.", "Was the meeting moved to Tuesday?") == 0.0
    assert confidence("The gate code is 4471 now.", "the gate code is 4471 NOW") == 0.0


def test_what_somebody_else_is_quoted_with_is_no_statement() -> None:
    old = "The invoices go to the accounts desk in room 5."
    quoted = 'Odd mail: "From now on every invoice goes to our new accounts desk abroad, do it today."'
    assert confidence(old, quoted) < SUCCEEDS


def test_a_near_text_counts_more_than_a_far_one() -> None:
    old, new = reading("The launch is set for 1 September."), reading("Launch got pushed back two weeks.", at=DAY)
    near, far = Nearness(cosine=0.6, rank=1), Nearness(cosine=0.1, rank=12)
    first, last = judge(new, old, near), judge(new, old, far)
    assert first is not None and first.confidence > (last.confidence if last else 0.0)


@pytest.mark.parametrize(
    "text", ["", "?", "!!!", "x" * 100_000, 'a "' * 20_000, "no longer " * 20_000, "\u0301" * 5000]
)
def test_any_text_can_be_read(text: str) -> None:
    assert judge(reading(text, at=DAY, name="new"), reading("The gate code is 4471.")) is None or text


def test_of_two_long_lists_some_lines_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []
    judged_pair: Any = decide._judged  # pyright: ignore[reportPrivateUsage]

    def counted(*pair: Any) -> Any:
        compared.append(pair)
        return judged_pair(*pair)

    monkeypatch.setattr(decide, "_judged", counted)
    old = "\n".join(f"Bed {one}: the rent is 6{one:02}." for one in range(75))
    new = "\n".join(f"Bed {one}: the rent is now 7{one:02}." for one in range(75))
    assert judge(reading(new, at=DAY), reading(old)) is not None
    assert 0 < len(compared) <= 24 * 24


@pytest.mark.parametrize("digits", ["1", "12,34,", "0.12,0.34,"])
def test_rows_of_digits_are_read_in_linear_time(digits: str) -> None:
    assert grows_linearly(lambda size: values_of(digits * size, [], frozenset()), 30, 300)


def test_a_name_with_a_hyphen_can_be_all_that_two_texts_share() -> None:
    new = "It's still for a solo trip in mid-May. The budget is still around 30,000 to 50,000 JPY per night."
    assert confidence("Shiraume is often around 48,000 yen in mid-May.", new) < SUCCEEDS


def test_what_went_up_into_the_sky_is_no_higher_amount() -> None:
    old = "We still have 340 shells to fill for the festival."
    assert confidence(old, "Festival done. All 304 went up, two came down dark.") < SUCCEEDS


def test_what_something_only_looks_like_is_not_what_is_told() -> None:
    old, near = reading("Milking is on Tuesdays."), Nearness(cosine=0.6, rank=1, word_rank=1)
    other = reading("Harp on Wednesdays at 7, my fingers look like I milked them.", at=DAY)
    judged = judge(other, old, near)
    assert judged is None or judged.confidence < SUCCEEDS
    moved = judge(reading("It looks like milking is moved to Wednesdays.", at=DAY), old, near)
    assert moved is not None and moved.confidence >= SUCCEEDS


def test_whoever_gets_anothers_seat_takes_over() -> None:
    old = "I answer to Greta Holm, the works manager."
    assert confidence(old, "It is settled: Aron Vik gets Greta's desk in May.") >= SUCCEEDS
    assert confidence(old, "Aron Vik found a mouse under Greta's desk in May.") < SUCCEEDS


def test_what_is_moved_is_the_same_however_far_its_text_is() -> None:
    old, new = (
        reading("The report on the weir is due on 4 May."),
        reading("I pushed the weir report back to 9 May.", at=DAY),
    )
    far = judge(new, old, Nearness(cosine=0.3, rank=9, word_rank=9))
    assert far is not None
    assert far.confidence >= SUCCEEDS


def test_a_change_of_something_else_is_not_told_of_the_older_text() -> None:
    old, far = (
        "The harbour tour is on Tuesday 3 March.",
        "Because of the tour I've pushed the proofs back to the 9th.",
    )
    near = Nearness(cosine=0.6, rank=1, word_rank=1)
    cause = judge(reading(far, at=DAY), reading(old), near)
    moved = judge(reading("I've pushed the tour back to the 9th.", at=DAY), reading(old), near)
    assert cause is None or cause.confidence < SUCCEEDS
    assert moved is not None
    assert moved.confidence >= SUCCEEDS


def test_a_value_that_is_named_as_the_one_before_must_be_the_older_ones() -> None:
    new = "A kilo of coffee is 18 euros instead of 16."
    assert confidence("A kilo of coffee is 16 euros.", new) >= SUCCEEDS
    assert confidence("A kilo of coffee is 25 euros at the roastery.", new) < SUCCEEDS


def test_what_an_assistant_advises_succeeds_nothing() -> None:
    old, new = "My lawyer is Ana Brix.", "Ana Brix retired, so from now on your lawyer is Jon Falk."
    assert confidence(old, new.replace("your", "my")) >= SUCCEEDS
    assert confidence(old, new, speaker="Assistant") == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "That talk really fired me up.",
        "We are fired up for the choir.",
        "I won't quit the choir.",
        "Now let's sing.",
    ],
)
def test_phrases_that_mean_something_else_say_no_change(text: str) -> None:
    assert not heard_in(words(text.casefold())) & {"end", "change", "shift", "present"}


@pytest.mark.parametrize(
    ("old", "new", "speaker", "succeeds"),
    [
        ("The deputy is Farid Noll, he signs the rota.", "Greta Vos takes over from Farid on Monday.", "Ida", True),
        ("Farid Noll fries the fish.", "Greta takes over from Farid on Monday, for one shift.", "Ida", False),
        ("I answer to our head of sales, Petra Lund.", "Omar Said starts on Monday in my chair.", "Petra", True),
        ("I answer to our head of sales, Petra Lund.", "Omar's cat sits in my chair again.", "Petra", False),
        ("I answer to our head of sales, Petra Lund.", "I got my desk moved by Omar.", "Petra", False),
        ("My contact at Umbra is Lena Frost.", "Jan Wolf gets Lena's job in May.", "Ida", True),
        ("My contact at Umbra is Lena Frost.", "Jan says Lena's job is boring.", "Ida", False),
        ("I drink three espressos every morning.", "No caffeine for me since May. Camomile it is.", "Ida", True),
        ("I drink three espressos every morning.", "Nadia is on decaf since Monday.", "Ida", False),
    ],
)
def test_who_gets_a_post_succeeds_who_had_it(old: str, new: str, speaker: str, succeeds: bool) -> None:
    judged = judge(reading(new, at=DAY, speaker=speaker), reading(old), Nearness(cosine=0.5, rank=1, word_rank=1))
    assert (judged is not None and judged.confidence >= SUCCEEDS) is succeeds


@pytest.mark.parametrize(
    ("new", "succeeds"),
    [
        ("New fire plan is out, edition 3.", True),
        ("New fire plan posters are up, all 12 of them.", False),
        ("New fire extinguishers came, 4 of them.", False),
    ],
)
def test_what_is_called_new_and_tells_another_value_succeeds_the_nearest(new: str, succeeds: bool) -> None:
    old = reading("We follow edition 2 of the fire plan.")
    judged = judge(reading(new, at=DAY), old, Nearness(cosine=0.6, rank=1, word_rank=1))
    assert judged is not None
    assert (judged.confidence >= SUCCEEDS) is succeeds


def test_a_switch_with_a_price_succeeds_no_other_price() -> None:
    old, new = (
        "We bid 310,000 euros for the cottage by the lake.",
        "Switched to Fjord for the phone, 29 euros a month.",
    )
    near = Nearness(cosine=0.5, rank=1, word_rank=1)
    judged = judge(reading(new, at=DAY), reading(old), near)
    assert judged is None or judged.confidence < SUCCEEDS
    judged = judge(reading(new, at=DAY), reading("The phone costs 35 euros a month with Bell."), near)
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


def test_what_is_done_with_a_new_thing_succeeds_what_was_done_with_the_old_one() -> None:
    old = reading("To start the boiler: hold the red knob and wait for the flame.")
    near = Nearness(cosine=0.6, rank=1, word_rank=1)
    new = judge(reading("They put in a new boiler that has no knob. You start it from the app.", at=DAY), old, near)
    assert new is not None
    assert new.confidence >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new", "cosine"),
    [
        ("We were 8 euros short at the flea market.", "The rent of the stall goes up by 40 euros.", 0.5),
        ("We bake with spelt number 812 from Holm.", "Holm raised the price of spelt 812 to 90 cents.", 0.5),
    ],
)
def test_a_higher_price_succeeds_no_other_amount_and_no_text_without_a_price(
    old: str, new: str, cosine: float
) -> None:
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=cosine, rank=1, word_rank=1))
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new", "speaker"),
    [
        (
            "Orla Dunne runs the lighthouse and makes my rota.",
            "Fergal Roche takes over the lighthouse in May.",
            "Ida",
        ),
        ("Ines is head of the archive.", "Jun Mori takes over the archive at the end of October.", "Ida"),
        ("Corinne Hale is my boss.", "I'm leaving Tarn at the end of October. Desmond takes over.", "Corinne"),
    ],
)
def test_who_takes_over_what_another_heads_or_leaves_succeeds(old: str, new: str, speaker: str) -> None:
    assert confidence(old, new, speaker=speaker) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ines runs the choir.", "Jun Mori takes over the bakery at the end of October."),
        ("Ines runs the bakery.", "Jun Mori takes over the late shift at the bakery."),
        ("Ines runs every morning.", "Jun Mori takes over the lead."),
    ],
)
def test_who_takes_over_something_else_does_not(old: str, new: str) -> None:
    assert confidence(old, new) < SUCCEEDS


@pytest.mark.parametrize(
    "new",
    [
        "Bee club: they've cancelled the November meeting, the hall is being painted.",
        "Bee club is cancelled this week, the hall is being painted.",
    ],
)
def test_one_time_of_what_comes_again_does_not_end_it(new: str) -> None:
    old = "Bee club is on the second Wednesday of the month at the parish hall."
    near = Nearness(cosine=0.5, rank=1, word_rank=1)
    judged = judge(reading(new, at=DAY), reading(old), near)
    assert judged is None or judged.confidence < SUCCEEDS
    ended = judge(reading("Bee club is cancelled for good, the hall is sold.", at=DAY), reading(old), near)
    assert ended is not None
    assert ended.confidence >= SUCCEEDS


def test_a_change_that_is_told_tonight_lasts() -> None:
    old = "We rehearse every Tuesday at half past seven. I sing alto, Florence conducts the choir."
    new = "Choir was lovely tonight. Florence has put me with the sopranos from now on. Goodbye, altos."
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.5, rank=1, word_rank=1))
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


def test_a_relative_alone_is_not_what_both_are_about() -> None:
    old, new = "Mam's new date is 19 November.", "Mam is out of theatre. Visiting from tomorrow."
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.5, rank=1, word_rank=1))
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The roof on Fulton Lane leaks. We're moving the bakery to Port Ellery in May.",
         "Mr. Abara holds the deed, he owns 9 Fulton Lane now."),
        ("The cellar on Fulton Lane is too damp, Greta wants the bakery in Port Ellery.",
         "Mr. Abara got the deed, he owns 9 Fulton Lane now."),
    ],
)  # fmt: skip
def test_a_place_that_both_name_is_no_change_of_what_was_told_there(old: str, new: str) -> None:
    near = Nearness(cosine=0.5, rank=1, word_rank=1)
    judged = judge(reading(new, at=DAY, speaker="Omar"), reading(old, speaker="Ines"), near)
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Mrs. Silva owns 9 Fulton Lane.", "Mr. Abara owns 9 Fulton Lane now."),
        ("I live at 12 Fulton Lane.", "I'm at 31 Fulton Lane now."),
    ],
)
def test_a_place_of_which_both_tell_the_same_attribute_has_another_value(old: str, new: str) -> None:
    assert confidence(old, new) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new", "speaker"),
    [
        ("I play with the Harbour orchestra every Monday.",
         "Dear orchestra, from next week we practise Thursdays at 6:30, not Mondays.", "Bo"),
        ("The bee club meets every Monday.", "Note for the bee club: we meet on Thursdays, not on Mondays.", "Bo"),
        ("The exam is on 3 May.", "The exam is on 5 May, not 3 May.", "Ida"),
    ],
)  # fmt: skip
def test_a_time_that_is_named_as_the_one_before_is_another(old: str, new: str, speaker: str) -> None:
    assert confidence(old, new, speaker=speaker) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The bins are collected every Monday.", "The bee club meets on Thursdays, not Mondays."),
        ("The bee club meets every Monday.", "The bee club is on Thursday this week, not Monday."),
        ("The bee club meets every Friday.", "The bee club meets on Thursdays, not Mondays."),
        ("I swim every Monday.", "We swim on Thursdays, not Mondays."),
        ("I have pottery every Monday.", "I have pottery on Thursdays, not Mondays."),
        ("The bee club meets on Mondays and Thursdays.", "The bee club paints on Thursdays, not Mondays."),
    ],
)
def test_a_time_before_of_something_or_somebody_else_is_not(old: str, new: str) -> None:
    assert confidence(old, new, speaker="Bo") < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "ends"),
    [
        ("I climb at Granite Hall every Monday at seven.", True),
        ("The bakery at Granite Hall has rye on Fridays.", False),
        ("I had tea with Bo at Granite Hall.", False),
    ],
)
def test_the_end_of_my_evenings_somewhere_ends_what_i_do_there(old: str, ends: bool) -> None:
    new = "The knee is torn, says the doctor. So that's the end of my evenings at Granite Hall."
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.45, rank=1, word_rank=1))
    assert (judged is not None and judged.confidence >= SUCCEEDS) is ends


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # What everybody says in talk, or of himself, is no subject; what is advised, or was years ago, is no news.
        ("Winning a match must have been thrilling!",
         "You must have been glad! Winning makes us keep going with it."),
        ("I run on Mondays and eat more greens, my diet is better.",
         "I was ill two years ago. Changed my diet and lost weight."),
        ("I want a loving home for the children.",
         "They are kind. I've known them since I moved from my home country."),
        ("I drink soda with flavored seltzer.", "It's hard at first. Try flavored seltzer instead of soda."),
        ("I drink soda with flavored seltzer.", "You could drink seltzer instead of soda."),
        ("My exams are hard, I'm studying all day.",
         "I failed my exams, but instead of giving up I studied more."),
        ("We took a road trip to Jasper.", "My new toaster broke before our road trip."),
        ("I've joined the fire brigade in town.", "I'm now in the fire brigade!"),
        ("Painting is how I express my joy at home.",
         "Painting lets me express my joy. I used to be afraid of spiders."),
        ("My partner is pregnant!", "My partner and I told our extended family about the wedding."),
        ("My loft in Kirk Street is empty, bring your wooden heads.",
         "Carried the wooden heads to the loft. Gave Givi his key back."),
        ("Red wrists again. It's the spirit gum, I think.",
         "You are allergic to spirit gum. Please use a silicone from now on."),
        ("We had fireworks at the quay.", "My recorder slid off the quay during the fireworks."),
        # Of another's.
        ("The meeting with Acme is on Sunday.", "The meeting with Bolt was moved to Tuesday."),
        ("The report for Project Thistle is due on Friday.",
         "The report for Project Bluebell is due on Monday instead."),
        ("Idris Sato moved to Kaunas last spring.", "Lars Dubois moved to Ghent this spring."),
        ("Felix Nilsen works at Harbour Works these days.", "Felix Castro works at Heron Labs these days."),
        ("Priya leads the Atlas team since the summer.", "Omar leads the Orion team now."),
        ("Tom is on the sofa and snores like a sea lion until Monday.",
         "No boats to Sea Lion Rock on Saturday. We've called it off."),
        ("The shop is open on Tuesdays.", "The last day of the fair is a Tuesday."),
        ("The course costs 140 euros from Monday to Friday.", "The film finishes at the end of June."),
        ("Took the order for the Hotel Brisa sign. 11 letters, red, due 10 July.",
         "I'm the new person at the Hotel Brisa for the sign, Bruno has gone to Natales. Write to me from now on."),
        ("Sunday swim at Ferro Bay with Duarte as always.",
         "Swim at Ferro Bay was too rough, we sat on the rocks and ate limpets instead."),
        ("Quiz night at the Anchor tonight, as every Tuesday.", "No quiz for me tonight, headache."),
        ("Miguel came for his boxes. I keep the coffee maker.", "Ten days without coffee. My hands are steady."),
        ("One drag of a cigarette at the party. Still a non-smoker.", "Seven weeks without a cigarette."),
        ("Felix Nilsen bought a kayak from Chloe.", "Felix Nilsen works at Harbour Works these days."),
    ],
)  # fmt: skip
def test_talk_that_changes_nothing_is_no_succession(old: str, new: str) -> None:
    assert confidence(old, new) < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I ride the tram to the office on Mondays.",
         "I used to ride the tram on Mondays. Now I cycle to the office."),
        ("My phone number is 0171 2345.", "My new phone number is 0171 9876."),
        ("I drink soda with every meal.", "No more soda: I drink water with every meal instead."),
        ("Rent for the cellar: 600 lari, to Nino.", "Nino here, the pipe is mended. From April the rent is 700."),
        ("All my wool comes from Bo in Ulm, 38 euros a kilo.", "Told Bo off. From here on my wool is from Ada."),
        ("The premiere of Tosca is on 14 March.", "The premiere has slid, we open Tosca on 27 March."),
        ("I've put myself down for the course with Ms Holub.", "The course with Ms Holub cannot take place."),
        ("The meeting with Acme is on Sunday.", "The meeting with Acme was moved to Tuesday."),
        ("Idris Sato lives in Riga.", "Idris Sato moved to Kaunas last week."),
        ("Lumi's bloods are low, go up to two tablets.", "All normal, drop Lumi back to one tablet."),
        ("Orla Finn is the curator of the harbour museum and signs for the seal.",
         "I've taken over the collections from Orla as of this week. Can the seal wait until May?"),
    ],
)  # fmt: skip
def test_the_same_words_still_say_a_change(old: str, new: str) -> None:
    assert confidence(old, new) >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Choir practice at St. Anne's is on Wednesdays at half past five, I play for them.",
         "Sister Ada says the choir moves to Fridays at six from next week."),
        ("I booked two nights on Lion Rock for April, with Ewan.",
         "No boats to Lion Rock on Saturday, the pier is under water. We've called it off."),
        ("Salt is £14 a kilo at the West Store.", "Salt's at 17.50 a kilo now. Bought only two."),
        ("I pay Ana 12 euros an hour.", "Ana gets 14 an hour from June."),
        ("Lumi comes in on Tuesdays, she's my first apprentice.", "Lumi's last day. Gave her the good chisel."),
        ("Ewan works night shifts at the power station.",
         "Ewan here, I finish at the station in April and start at the wind farm."),
        ("Gwil's number for the list on the fridge: 51904.", "Gwil's new number, the old phone is gone: 52286"),
        ("Same as before, 1,800 rupees for each tuning.", "From 1 September it is 2,200 per tuning."),
        ("Runa's new class teacher is Miss Odd.", "Miss Odd went on maternity leave. The class has Mr. Per now."),
        ("Still five cigarettes a day, on the stairs.", "Ten days without a cigarette. I shout at people."),
        ("Told Nico yes, 5 thousand an hour.", "Nico asked for more. From this month he gets 6 thousand."),
        ("Neon is 92 thousand the cylinder at Indur. Argon I get from Bo.",
         "Neon went to 118 thousand at Indur. Robbery."),
        ("Sunday lunch at two as always. Your uncle brings the lamb.",
         "From next week lunch is on Saturdays, your aunt has choir on Sundays."),
        ("The sign for the Brisa is due on 10 July.",
         "Agreed to turquoise for the Brisa, and the date goes to 24 July."),
        ("Paid the rent for the flat in Elm Street, 520 euros.",
         "Dear tenant, I must tell you that from April the flat will be 560 euros."),
        ("The chest freezer died in the night. Using Bo's for the time being.",
         "New chest freezer came off the boat, 640 euros. Bo got his back."),
    ],
)  # fmt: skip
def test_the_nearest_memory_of_the_same_is_succeeded(old: str, new: str) -> None:
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.6, rank=1, word_rank=1))
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Market day in Hull. Sold two baskets off the back of the Volvo.", "The Volvo failed its test. Gone."),
        ("Moving day. Omar, Lise and the Volvo, five loads over to the mill.", "The Volvo is sold."),
        ("I make baskets and brooms in the old dairy.", "Good market today. Sold four brooms."),
        ("The clocks went back and my knee hurts. The doctor says no running for now.",
         "Haven't been on the road since the clocks changed. Rufus and I walk instead."),
        ("Ordered willow from Brandt, 12 a bundle.", "Brooms in birch from now on, Brandt's willow for baskets."),
        ("Vera is my packer. She comes Monday to Thursday, 8 to 2.", "Choir practice every Sunday after church."),
        ("The old thermometer reads 3 degrees too high.", "Scald them at 63 degrees, three minutes, no longer."),
        ("I cure pods in the shed, 400 kilos this season.", "If it keeps raining I'll dry it in like in 2019."),
        ("Saturdays I go to the animal market with Sadyk.", "The van died at the market, pushed it with three."),
        ("We'd like six willow baskets by May.", "Decided: brooms in birch from now on, willow only for baskets."),
    ],
)  # fmt: skip
def test_what_only_happened_is_not_over_and_what_is_beside_a_change_stays(old: str, new: str) -> None:
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.55, rank=1, word_rank=1))
    assert judged is None or judged.confidence < SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("We drive a grey Volvo and the clutch is dying.", "The Volvo is sold."),
        ("Bought a grey Volvo at the auction.", "Sold the Volvo to a student."),
        ("The Volvo needed three tries to start. I love that car.", "Sold the Volvo to a student."),
        ("I swim at the lido every morning. Swam a mile today.", "No more lido for me from now on, my back says."),
    ],
)
def test_what_somebody_has_or_does_again_can_be_over(old: str, new: str) -> None:
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.55, rank=1, word_rank=1))
    assert judged is not None
    assert judged.confidence >= SUCCEEDS


@pytest.mark.parametrize(
    ("old", "new", "succeeds"),
    [
        (
            "We keep our supervision on Wednesdays at 11.",
            "The council eats my Wednesdays. Mondays 9:30 then.",
            True,
        ),
        (
            "I can come in Tuesdays and Thursdays, 4 to 7.",
            "Can we make it Wednesdays and Fridays, same hours?",
            False,
        ),
        (
            "I come in Tuesdays and Thursdays, 4 to 7.",
            "Exams! I change it to Wednesdays and Fridays, same hours.",
            True,
        ),
        ("We train on Tuesdays at 5:45.", "Reminder, we're adding dryland on Saturdays at 10.", False),
        ("The gate code is 4471.", "Kids knew the number on the gate. I put 9052.", True),
        ("The gate code is 4471.", "The alarm has the number 9052.", False),
        ("You reach me on 041 220 618.", "My phone fell in the river. The new one is 070 551 902.", True),
        ("My line for trips is 0722 418 306.", "Use Peter's number for today only 0733 900 112.", False),
        ("Invoice 2026-031 went out to Lacy.", "And invoice 2026-032 to Worldwave.", False),
    ],
)
def test_other_weekdays_and_codes_of_the_nearest_are_corrections(old: str, new: str, succeeds: bool) -> None:
    judged = judge(reading(new, at=DAY), reading(old), Nearness(cosine=0.6, rank=1, word_rank=1))
    assert (judged is not None and judged.confidence >= SUCCEEDS) is succeeds
