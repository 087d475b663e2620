from __future__ import annotations

import json
from pathlib import Path

import pytest

from orion_recall.contracts import RecallQueryV1
from orion_recall.profile.watch import loaded_profiles
from orion_recall.recall.understand.in_english import in_english, language_asked
from orion_recall.recall.understand.question import Understanding, understand

DATA = Path(__file__).parents[3] / "data"
NOW = 1_790_000_000.0  # 2026-09-21, a Monday


def understood(text: str, *speakers: str) -> Understanding:
    profile = loaded_profiles(None)["reflect.v1"].profile
    return understand(RecallQueryV1(fragment=text), profile, now=NOW, speakers=frozenset(speakers))


@pytest.mark.parametrize(
    ("asked", "language", "english"),
    [
        ("Où travaille ma sœur maintenant ?", "french", "where works my sister now?"),
        ("ou travaille ma soeur maintenant", "french", "where works my sister now"),
        ("J’ai fait quoi la semaine dernière ?", "french", "what did i do last week?"),
        ("Was war heute Morgen?", "german", "what was this morning?"),
        ("isst meine Schwester Fisch?", "german", "eats my sister fish?"),
        ("Wer ist der Chef von Ravi?", "german", "who is the boss of Ravi?"),
        ("¿Qué tengo la semana que viene?", "spanish", "what do i have next week?"),
        ("¿Cuándo es la próxima cita con el dentista?", "spanish", "when is the next dentist appointment?"),
        ("dónde trabaja mi hermana?", "spanish", "where works my sister?"),
    ],
)
def test_a_question_is_read_word_by_word(asked: str, language: str, english: str):
    assert language_asked(asked) == language
    assert in_english(asked, language_asked(asked), ()) == english


@pytest.mark.parametrize("language", ["english", "italian", "dutch", "russian"])
def test_of_other_languages_nothing_is_read(language: str):
    assert in_english("La mia casa", language, ()) is None  # pyright: ignore[reportArgumentType]


def test_a_speakers_name_stays_and_so_does_what_is_written_large_inside_of_a_sentence():
    assert in_english("où est rose ?", "french", {"rose"}) == "where is rose?"
    assert in_english("Où est Pierre ?", "french", ()) == "where is Pierre?"


@pytest.mark.parametrize(
    "asked",
    [
        "Where is the war museum?", "mit lab?", "Des Moines trip", "Ana boss", "la?", "", "?!", "es", "42", "das",
        "What did Louise say about El Niño?", "our fiancé", "naïve café owner", "Wi-Fi password", "die hard",
    ],
)  # fmt: skip
def test_english_is_left_alone(asked: str):
    assert in_english(asked, language_asked(asked), ()) in (None, asked)


def test_no_english_question_of_any_judged_set_is_taken_for_another_language():
    files = [*DATA.glob("*/queries.jsonl"), *DATA.glob("*/in_other_words.jsonl"), *DATA.glob("*/*/queries.jsonl")]
    asked = [
        json.loads(line)["query"]
        for path in files
        if path.parent.name not in ("golden", "everyday_german", "everyday_french")
        for line in path.read_text("utf-8").splitlines()
    ]
    assert len(asked) > 800
    assert [one for one in asked if language_asked(one) in ("french", "german", "spanish")] == []


def test_times_are_those_of_the_english():
    one = understood("Wo hat meine Schwester letzte Woche gearbeitet?")
    assert (one.language, [span.words for span in one.question.time.intervals]) == ("german", ["last week"])


def test_it_is_searched_for_in_both_languages():
    question = understood("Où travaille ma sœur maintenant ?", "Ana").question
    for searched in (question.dense_text, question.keyword_text):
        assert "sister" in searched and "sœur" in searched
    assert {"sister", "sœur"} <= question.terms


def test_no_entry_of_a_list_is_of_another_form():
    for language in ("french", "german", "spanish"):
        path = Path(__file__).parents[4] / "orion_recall" / "text" / "foreign" / f"{language}.txt"
        entries = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("#")]
        assert len(entries) > 5000
        assert [line for line in entries if line.count("=") != 1 or line.startswith(" ")] == []
        phrases = [phrase.strip() for line in entries for phrase in line.partition("=")[0].split("|")]
        assert [one for one in phrases if not one or (one != one.casefold() and "ß" not in one)] == []
        assert len(phrases) == len(set(phrases))
