"""Days and months in six other languages, read as the English words that the grammar knows.

German, French, Spanish, Italian, Dutch and Portuguese.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_WEEKDAYS: Final = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTHS: Final = "january february march april may june july august september october november december".split()


def _names(english: Sequence[str], *languages: str) -> dict[str, str]:
    return {name: said for names in languages for name, said in zip(names.split(), english, strict=True)}


# Written with a capital.
_GERMAN: Final = _names(
    [*_WEEKDAYS, *_MONTHS],
    """montag dienstag mittwoch donnerstag freitag samstag sonntag
    januar februar märz april mai juni juli august september oktober november dezember""",
)
# Written without one.
_SMALL: Final = _names(
    [*_WEEKDAYS, *_MONTHS],
    """lundi mardi mercredi jeudi vendredi samedi dimanche
    janvier février mars avril mai juin juillet août septembre octobre novembre décembre""",
    """lunes martes miércoles jueves viernes sábado domingo
    enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre""",
    """lunedì martedì mercoledì giovedì venerdì sabato domenica
    gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre""",
    """maandag dinsdag woensdag donderdag vrijdag zaterdag zondag
    januari februari maart april mei juni juli augustus september oktober november december""",
    """segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo
    janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro""",
) | {
    "gestern": "yesterday",
    "heute": "today",
    "morgen": "tomorrow",
    "aujourd'hui": "today",
    "demain": "tomorrow",
    "ayer": "yesterday",
    "hoy": "today",
    "mañana": "tomorrow",
    "ieri": "yesterday",
    "oggi": "today",
    "domani": "tomorrow",
    "gisteren": "yesterday",
    "vandaag": "today",
    "ontem": "yesterday",
    "hoje": "today",
    "amanhã": "tomorrow",
}
_IS_FRENCH: Final = frozenset("je j'ai nous vous le la les est une elle il avons chez avec".split())
# Before a day or a month.
_LEADS: Final[Mapping[str, str]] = {
    **dict.fromkeys("am im den dem le el au en il op dia no na em".split(), "on"),
    **dict.fromkeys("bis jusqu'à jusqu'au hasta tot até".split(), "until"),
    **dict.fromkeys("seit depuis desde sinds".split(), "since"),
    **dict.fromkeys("ab dès vom von du del dal vanaf".split(), "from"),
    **dict.fromkeys("zum al".split(), "to"),
    **dict.fromkeys("nächsten nächste nächster kommenden próximo volgende prossimo próxima".split(), "next"),
    **dict.fromkeys("letzten letzte letzter vorige".split(), "last"),
    **dict.fromkeys("diesen diese dieser diesem ce este".split(), "this"),
    **dict.fromkeys("jeden jeder chaque cada los ogni elke iedere".split(), "every"),
}
_AFTER: Final[Mapping[str, str]] = {
    **dict.fromkeys("prochain próximo prossimo".split(), "next"),
    **dict.fromkeys("dernier pasado scorso passado".split(), "last"),
}


def in_english(words: list[str], capitals: Sequence[bool]) -> None:
    """Replaces the words, folded and in order, in their places; `capitals` says which are written with one."""
    found: list[int] = []
    for place, (word, capital) in enumerate(zip(words, capitals, strict=True)):
        if word == "hier" and not _IS_FRENCH.isdisjoint(words):  # "here" in German
            words[place] = "yesterday"
        elif (english := (_GERMAN if capital else _SMALL).get(word)) is not None and english != word:
            if english in _MONTHS and not _has_a_day(words, place):
                continue
            words[place] = english
            found.append(place)
    for place in found:
        _translate_around(words, place)


def _has_a_day(words: Sequence[str], place: int) -> bool:
    """ "3. Mai", "3 de mayo": without a number it may be a name, or another word."""
    before = [word for word in words[max(0, place - 2) : place] if word not in (".", "de")]
    return bool(before) and before[-1].isdecimal()


def _translate_around(words: list[str], place: int) -> None:
    """The words beside a day or a month."""
    first = place
    if words[place] in _MONTHS:
        first = place - 1 if words[place - 1].isdecimal() else place - 2
        if words[place - 1] in (".", "de"):
            words[place - 1] = "of"
        if first > 0 and words[first - 1] in _WEEKDAYS:
            return
    following = words[place + 1] if place + 1 < len(words) else ""
    if following in _AFTER:
        words[place], words[place + 1] = _AFTER[following], words[place]
    if first > 0 and (lead := _LEADS.get(words[first - 1])) is not None:
        # "Le jeudi" is every Thursday, "le jeudi 24" one of them.
        is_every = words[first - 1] == "le" and words[place] in _WEEKDAYS and not following.isdecimal()
        words[first - 1] = "every" if is_every else lead
