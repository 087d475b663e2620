"""Query expansion: verb forms, words for kin and full names that an answer may have and the question has not.

The keyword index stems, so "running" finds "runs" already; what no stemmer does is "bought" and "buy".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from functools import lru_cache

from orion_recall.text.names import SYNONYMS
from orion_recall.text.normal import STOP_WORDS, without_possessive, words

_VERBS = """
be was were been|become became|begin began begun|bite bit bitten|blow blew blown|break broke broken|bring brought
build built|buy bought|catch caught|choose chose chosen|come came|cost|cut|dig dug|do did done|draw drew drawn
drink drank drunk|drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found
fly flew flown|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given
go went gone|grow grew grown|hang hung|have had|hear heard|hide hid hidden|hold held|keep kept|know knew known
lead led|learn learnt|leave left|lend lent|lose lost|make made|mean meant|meet met|pay paid|ride rode ridden
ring rang rung|rise rose risen|run ran|say said|see saw seen|sell sold|send sent|shake shook shaken|shine shone
shoot shot|sing sang sung|sink sank sunk|sit sat|sleep slept|speak spoke spoken|spend spent|stand stood
steal stole stolen|stick stuck|strike struck|swear swore sworn|swim swam swum|take took taken|teach taught
tear tore torn|tell told|think thought|throw threw thrown|understand understood|wake woke woken|wear wore worn
win won|write wrote written|child children|person people|man men|woman women|mouse mice|foot feet|tooth teeth
"""
_FORMS: dict[str, tuple[str, ...]] = {
    form: tuple(group.split())
    for line in _VERBS.strip().splitlines()
    for group in line.split("|")
    for form in group.split()
}
# Too common to say anything in any form.
_EMPTY = frozenset("be was were been do did done have had get got gotten".split())


def verb_forms(word: str) -> tuple[str, ...]:
    """The other forms of an irregular verb or noun; none of a word that a stem is enough for."""
    return () if word in _EMPTY else _FORMS.get(word, ())


@lru_cache(maxsize=64)
def _parts(names: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """The words of every name, in alphabetical order; split once for as long as nobody new speaks."""
    return tuple(sorted(tuple(parts) for name in names if (parts := words(name))))


def expansions(text: str, names: Iterable[str], terms: Collection[str]) -> list[str]:
    """Further words to search for, in a fixed order, none of them in `terms`.

    `names` are the full names known; a name's first word, or a beginning of it of three letters and more that is
    a word of the question, brings the whole name ("Mel" finds "Melanie Jones", "the" does not find "Theo").
    """
    asked = words(text)
    found = [form for word in asked for form in verb_forms(word)]
    found += [form for word in asked for form in SYNONYMS.get(without_possessive(word), ())]
    beginnings = [bare for word in asked if len(bare := without_possessive(word)) >= 3 and word not in STOP_WORDS]
    known = _parts(frozenset(names)) if beginnings else ()
    for word in beginnings:
        for parts in known[bisect_left(known, (word,)) :]:
            if not parts[0].startswith(word):
                break
            if word not in parts[1:]:
                found.extend(parts)
    return [word for word in dict.fromkeys(found) if word not in terms]
