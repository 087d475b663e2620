"""Ways through the graph that a question asks for: possessive chains, who somebody is, how two are related.

"Ana's sister's employer" goes from Ana to her sister to an employer; "the employer of Ana's sister", "my sister's
employer", "who owns Fjord Labs" and "whom does Ana report to" are read, too. A question gives several readings, the
longest first; the first that has a path in the graph counts. English only.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple

from orion_recall.graph.relation_words import is_role, role_of_clause
from orion_recall.recall.understand.people import EntityKind, NamedEntity
from orion_recall.text.normal import STOP_WORDS, without_possessive
from orion_recall.text.reported import SAYING
from orion_recall.values import Chain, QuestionTime, WalkKind

_MOST_SEEDS = 3
_READ_CHARS = 500
_ORDER: Sequence[EntityKind] = ("quoted", "capitalised", "known")
_END = r"[^?!.;]{1,80}?"
_TIE = r"(?:relat(?:ion(?:ship)?|ed)|connect(?:ion|ed)|link(?:ed)?|tied|path)"
_LATER = r"(?:\s+(?:in|on|since|before|after|during|back)\b[^?!.]*)?\s*[?!.]*\s*$"
_RELATED = tuple(
    re.compile(pattern + _LATER, re.IGNORECASE)
    for pattern in (
        rf"\bhow\s+(?:is|are|was|were|am)\s+(?P<a>{_END})\s+{_TIE}\s+(?:to|with)\s+(?P<b>{_END})",
        rf"\bhow\s+(?:are|were)\s+(?P<a>{_END})\s+and\s+(?P<b>{_END})\s+{_TIE}",
        rf"\b(?:what|who)\s+(?:connects|links|relates|ties)\s+(?P<a>{_END})\s+(?:and|with|to)\s+(?P<b>{_END})",
        rf"\b{_TIE}\s+between\s+(?P<a>{_END})\s+and\s+(?P<b>{_END})",
        rf"\b{_TIE}\s+from\s+(?P<a>{_END})\s+to\s+(?P<b>{_END})",
        rf"\bhow\s+(?:does|do|did)\s+(?P<a>{_END})\s+know\s+(?P<b>{_END})",
        rf"\bwhat\s+(?:does|do|did|has|have)\s+(?P<a>{_END})\s+(?:have\s+)?to\s+do\s+with\s+(?P<b>{_END})",
        rf"\bwhat\s+(?:does|do|did)\s+(?P<a>{_END})\s+and\s+(?P<b>{_END})\s+have\s+in\s+common",
    )
)
_WHO_AM_I = re.compile(r"^\W*(?:and\s+|so\s+)?who\s+am\s+i\W*$", re.IGNORECASE)
_ARTICLE = re.compile(r"^(?:the|a|an)\s+", re.IGNORECASE)
_ME = frozenset("i me myself".split())
_SIGNS = " \"'“”‘’,"

_WHO_IS: Final = re.compile(
    r"""^\W*(?:(?:and|so|ok(?:ay)?|please|tell\ me|do\ you\ know|remind\ me|again)\W+)*
        who(?:\ exactly)?(?:['’]s|\ is|\ are|\ was|\ were)\ (?:this\ |that\ )?
        (?P<name>[^\W\d_][\w'’.-]*(?:\ [^\W\d_][\w'’.-]*){0,3}?)
        (?:\ (?:again|exactly|anyway|please|then))*\s*[?.!]*\s*$
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NO_NAMES: Final = frozenset(
    """the a an my our your his her their this that these those in on at to there it he she they we i you going
    coming here responsible one""".split()
)


def walks(
    text: str,
    kinds: Collection[WalkKind],
    *,
    named: Sequence[NamedEntity] = (),
    time: QuestionTime,
    asker: str | None = None,
) -> tuple[Chain, ...]:
    """The walks of these kinds that the text asks for, in the order in which they are tried. A seed "" stands for
    what the graph knows of the text's words."""
    found: list[Chain] = []
    if "who" in kinds and (name := asker if _WHO_AM_I.match(text) else asks_who(text)) is not None:
        found.append(Chain(seed=name, via=(), words=f"who is {name}", asks="who"))
    if "related" in kinds:
        # Runs of blanks would be tried at every place of a pattern.
        ends = _ends(" ".join(text[: 4 * _READ_CHARS].split())[:_READ_CHARS])
        one, other = (asker if end.casefold() in _ME else end for end in ends)
        if one and other and one.casefold() != other.casefold():
            found.append(Chain(seed=one, via=(), words=f"{one} and {other}", asks="related", target=other))
    if "temporal" in kinds and time.intervals:
        words = " ".join(one.words for one in time.intervals)
        seeds = _seeds(named, time) or ("", *((asker,) if asker else ()))
        found += [Chain(seed=seed, via=(), words=words, asks="temporal") for seed in seeds]
    return tuple(found)


@lru_cache(maxsize=256)
def _ends(text: str) -> tuple[str, str]:
    """The two whose relation is asked for, as written without an article; "" where none is."""
    found = next((match for pattern in _RELATED if (match := pattern.search(text)) is not None), None)
    one, other = (_ARTICLE.sub("", " ".join(found[name].split())) if found else "" for name in "ab")
    return one.strip(_SIGNS), other.strip(_SIGNS)


def _seeds(named: Sequence[NamedEntity], time: QuestionTime) -> Sequence[str]:
    ordered = sorted(named, key=lambda one: _ORDER.index(one.kind))
    in_time = {word for one in time.intervals for word in one.words.casefold().split()}
    # "May" and "Monday" have capitals, too.
    return [one.name for one in ordered if not in_time.issuperset(one.name.casefold().split())][:_MOST_SEEDS]


def asks_who(text: str) -> str | None:
    """The name in "Who is Hana Sato?" as written; None for another question, and for "who is my boss"."""
    match = _WHO_IS.match(text)
    if match is None:
        return None
    name = match["name"].removesuffix("'s").removesuffix("’s")
    first = name.split()[0].casefold()
    if first in _NO_NAMES or re.search(r"['’]s?\s|\bof\b", match["name"]) or match["name"] != name:
        return None
    return name


MOST_STEPS = 5
_CHAIN_CHARS = 1000
_TOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*['’]?|[^\w\s]", re.UNICODE)
_ENDING = re.compile(r"['’]s?$", re.IGNORECASE)
_POSSESSIVE = re.compile(r"(?:['’]s|s['’])$", re.IGNORECASE)
_MINE = frozenset(("my", "our"))
_ARTICLES = frozenset("the a an his her their its our my your".split())
# Asked with, and so neither a relation nor the beginning of a name.
_ASKING = frozenset("who whom whose what which where when why how tell name list show find give".split())


class _Word(NamedTuple):
    """A word as written, folded and without its possessive ending; `text` is "" for a sign. `is_plain`: it may be
    what a relation is called."""

    written: str
    text: str
    is_possessive: bool
    is_plain: bool
    is_name: bool


@lru_cache(maxsize=256)
def chains(text: str, asker: str | None = None) -> tuple[Chain, ...]:
    """The readings of the first possessive chain of the text, longest first. `asker` is the speaker that "my"
    means: of a chain that begins with it, the first word is one for a relation."""
    tokens = [_word(token) for token in _TOKEN.findall(text[:_CHAIN_CHARS])]
    start = 0
    while start < len(tokens):
        end = start
        if asker is not None and tokens[start].written.casefold() in _MINE:
            end, seed, is_mine = start + 1, asker, True
        else:
            while end < len(tokens) and tokens[end].is_name and not (end > start and tokens[end - 1].is_possessive):
                end += 1
            said = " ".join(one.written for one in tokens[start:end])
            seed, is_mine = _ENDING.sub("", said) if end > start and tokens[end - 1].is_possessive else said, False
        if end > start and (readings := _readings(tokens, start, end, seed, is_mine=is_mine)):
            return readings
        start = max(end, start + 1)
    return _of_clause(tokens, asker)


def _of_clause(tokens: Sequence[_Word], asker: str | None) -> tuple[Chain, ...]:
    """What a clause asks of its subject: "where do I live", "whom does Ana report to"."""
    for place in range(len(tokens) - 3):
        asking, auxiliary = tokens[place].text, tokens[place + 1].text
        if asking not in ("where", "who", "whom") or auxiliary not in ("do", "does", "did"):
            continue
        start = end = place + 2
        while end < len(tokens) and tokens[end].is_name and not tokens[end].is_possessive:
            end += 1
        seed: str | None = " ".join(word.written for word in tokens[start:end])
        if tokens[start].text == "i":
            seed, end = asker, start + 1
        if not seed or end >= len(tokens):
            continue
        after = tokens[end + 1].text if end + 1 < len(tokens) else ""
        if role := role_of_clause(asking, tokens[end].text, after):
            return (Chain(seed=seed, via=(role,), words=" ".join(one.written for one in tokens[place : end + 1])),)
    return ()


def _readings(tokens: Sequence[_Word], start: int, end: int, seed: str, *, is_mine: bool) -> tuple[Chain, ...]:
    """What is said of the seed, a name or "my", that stands from `start` up to `end`."""
    possessive = is_mine or tokens[end - 1].is_possessive
    steps, rest, place = _forward(tokens, end) if possessive else ([], _phrase(tokens, end), end)
    outer, first = _backward(tokens, start)
    if not outer:
        outer, first = _verb_before(tokens, first)
    if not (possessive and (steps or rest)) and not outer:
        return ()
    if is_mine:
        if any(word.is_name for word in tokens[end : place + len(rest)]):  # "my boss Ana's sister" begins at Ana
            return ()
        if not (steps or outer or is_role(rest[0])):  # "my bike" leads nowhere
            return ()
    vias = _vias(steps, rest, outer, possessive=possessive)
    said = " ".join(word.written for word in tokens[first : place + len(rest)])
    kept = dict.fromkeys(tuple(via[:MOST_STEPS]) for via in vias if via)
    return tuple(Chain(seed=seed, via=via, words=said) for via in kept)


def _verb_before(tokens: Sequence[_Word], first: int) -> tuple[list[str], int]:
    """The verb of "who leads my team", and where it stands: it leads back from what it is done to."""
    at = _before_articles(tokens, first)
    if at < 1 or tokens[at - 1].text != "who" or not tokens[at].is_plain or tokens[at].is_name:
        return [], first
    return ([], first) if tokens[at].text in SAYING else ([tokens[at].text], at)


def _vias(
    steps: Sequence[str], rest: Sequence[str], outer: Sequence[str], *, possessive: bool
) -> list[tuple[str, ...]]:
    """The ways to read it, longest first: after "Ana's sister" a "work" is a step, or half a name, or nothing. A
    step is only left out at the end."""
    if not possessive:  # "the sister of Ana", and perhaps a verb after it
        return [(*outer, *rest[:1]), tuple(outer)]
    if not rest:
        return [(*steps, *outer)]
    noun, whole = rest[0], (*steps, rest[0], *outer)
    longer = [(*whole, word) for word in rest[1:2]]
    if outer:
        return [*longer, whole]
    return [*longer, *((*steps, f"{noun} {word}") for word in rest[1:2]), whole, tuple(steps)]


def _forward(tokens: Sequence[_Word], place: int) -> tuple[list[str], list[str], int]:
    steps: list[str] = []
    while True:
        rest = _phrase(tokens, place)
        owning = next((at for at in range(len(rest)) if tokens[place + at].is_possessive), None)
        if owning is None:
            return steps, rest, place
        steps.append(rest[owning])
        place += owning + 1


def _backward(tokens: Sequence[_Word], place: int) -> tuple[list[str], int]:
    """The steps of "the employer of the sister of", the nearest first, and where they begin."""
    steps: list[str] = []
    while True:
        at = _before_articles(tokens, place)
        if at < 1 or tokens[at].text != "of" or not tokens[at - 1].is_plain or tokens[at - 1].is_name:
            return steps, place
        steps.append(tokens[at - 1].text)
        place = at - 1


def _before_articles(tokens: Sequence[_Word], place: int) -> int:
    return next((at for at in range(place - 1, -1, -1) if tokens[at].text not in _ARTICLES), -1)


def _phrase(tokens: Sequence[_Word], place: int) -> list[str]:
    """Up to three words in a row that may be relations; the row ends after nothing but a sign or a small word."""
    return [word.text for word in takewhile(lambda word: word.is_plain, tokens[place : place + 3])]


def _word(token: str) -> _Word:
    return _kept_word(token) if len(token) <= _LONGEST_KEPT else _read_word(token)


def _read_word(token: str) -> _Word:
    text, is_possessive = token.casefold() if token[0].isalnum() else "", False
    if text and not token.isalnum():  # else there is no sign of a possessive
        is_possessive = _POSSESSIVE.search(token) is not None
        text = without_possessive(text.rstrip("'’"))
    is_plain = bool(text) and text not in STOP_WORDS and text not in _ASKING
    return _Word(token, text, is_possessive, is_plain, is_name=is_plain and token[0].isupper())


# Questions are made of the same words.
_LONGEST_KEPT = 64
_kept_word = lru_cache(maxsize=4096)(_read_word)
