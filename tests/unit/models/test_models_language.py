from __future__ import annotations

import pytest

from orion_recall.models.language import language_of, small_words
from orion_recall.text.normal import words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("What did Ana repair on Friday?", "english"),
        ("Wie schneidet man den Apfelbaum richtig?", "german"),
        ("Où est-ce que tu as acheté le violoncelle ?", "french"),
        ("¿Cuándo fue la última vez que hablamos de la boda?", "spanish"),
        ("Quando abbiamo comprato la casa con il giardino?", "italian"),
        ("Onde é que nós deixamos as chaves do carro?", "portuguese"),
        ("Wanneer hebben wij de boot voor het laatst gezien?", "dutch"),
        ("Vad ska vi göra när hon är här?", "swedish"),
        ("Mitä me teimme kun hän oli täällä?", "finnish"),
        ("Ne zaman ve nerede bu kadar çok şey oldu?", "turkish"),
        ("Когда мы были в Ленинграде?", "russian"),
        ("Πότε ήταν η γιορτή;", "greek"),
        ("متى كان العيد؟", "arabic"),
        ("מתי היה החג?", "hebrew"),
    ],
)
def test_a_sentence_is_told_by_its_small_words_or_its_script(text: str, language: str):
    assert language_of(words(text)) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Tomaten",
        "Ana",
        "12 3",
        "Was he on the way to Rio de Janeiro?",
        "Who painted La Mer for the Hotel de la Plage?",
        "What does the word Кизир mean, and who said Изгой?",
        "The swan song (ancient Greek: κύκνειον ᾆσμα) is what they call a final gesture",
        "Die hard, the man said, was on in the bar",
    ],
)
def test_where_little_speaks_for_another_it_is_english(text: str):
    assert language_of(words(text)) == "english"


def test_only_the_beginning_is_judged():
    german = words("der Baum und die Säge ") * 200
    assert language_of(["what", "did", "the"] * 50 + german) == "english"


def test_small_words_are_those_that_tell_the_language():
    assert {"der", "nicht", "wie"} <= small_words("german")
    assert small_words("russian") == frozenset()
