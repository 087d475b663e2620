"""Sentences of a text as units: names, words and punctuation.

A name is a quoted phrase, a run of capitalised words, or a known name in any case. A capital tells nothing at the
start of a sentence, in a heading, in capitals throughout (UTC), behind an article (the Board) or before a number
(Room 12): such words are "maybe" names, which only the end of a statement makes names. No list says what is a name.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from orion_recall.text.normal import STOP_WORDS
from orion_recall.when.direction import is_past_form

MAX_NAME_CHARS = 80
MAX_NAME_WORDS = 8
_MAX_QUOTED_WORDS = 6
# Known names that begin with one word: bounds the work at each word of the text.
_KNOWN_PER_WORD = 4

TITLES = frozenset("mr mrs ms miss dr prof professor sir madam mr. mrs. ms. dr. prof.".split())
CALENDAR = frozenset(
    name.casefold()
    for names in (calendar.month_name, calendar.month_abbr, calendar.day_name, calendar.day_abbr)
    for name in names
    if name
)
ARTICLES = frozenset("the a an my our your his her its their this that these those".split())
# Words of grammar that are no stop words: pronouns, days as seen from today, interjections.
_FUNCTION_WORDS = frozenset(
    """everyone everybody everything someone somebody something anyone anybody anything nobody nothing none
    i've we've today tomorrow yesterday tonight another every many much since thanks hi hello hey dear yes oh ok
    okay please well here's there's what's who's""".split()
)
# With one of these a sentence says nothing that is so.
UNSURE = frozenset(
    """if whether unless suppose supposing imagine pretend maybe perhaps probably possibly presumably apparently
    allegedly reportedly supposedly wish wished""".split()
)
NEVER_NAMES = STOP_WORDS | CALENDAR | UNSURE | _FUNCTION_WORDS
_AUXILIARIES = frozenset("is was has had does did will would can could may might must should and".split())
_PARTICLES = frozenset("van von de der den del della di da dos du la le las los el al bin ibn ter ten".split())
_IN_HEADINGS = frozenset("a an the of and or for to in on at with by from".split())
_NO_NAME_ENDS = ("ing", "ly", "ed", "tion", "ness", "ment")

_TOKEN = re.compile(
    r"""
    "(?P<straight>[^"\n]+)" | [“«](?P<curly>[^“”«»\n]+)[”»]
    | (?<!\w)['‘](?P<single>(?:[^'‘’\n]|(?<=\w)['’](?=\w))+)['’](?!\w)
    | (?P<short>(?:[^\W\d_]\.){2,} | (?:Mrs?|Ms|Dr|Prof|St|Jr|Sr|Mt)\.(?=[ ]\w) | [A-HJ-Z]\.(?=[ ][A-Z]))
    | (?P<word>[^\W_](?:[^\W_]|[\u0300-\u036f])*(?:['’&\-][^\W_](?:[^\W_]|[\u0300-\u036f])*)*)
    | (?P<end>[.!?…\n]) | (?P<mark>[,;:()|—–])
    """,
    re.VERBOSE,
)


class Unit(NamedTuple):
    """A name, a word or punctuation; a possessive name is given without its 's. `folded` is for comparison."""

    kind: Literal["name", "maybe", "word", "mark"]
    text: str
    folded: str
    possessive: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    units: tuple[Unit, ...]
    question: bool


@dataclass(slots=True)
class _Token:
    text: str
    folded: str
    start: int
    end: int
    kind: Literal["word", "quoted", "mark"] = "word"
    initial: bool = False
    capital: bool = False

    @property
    def base(self) -> str:
        return self.folded.removesuffix("'s")


@dataclass(slots=True, kw_only=True)
class _Context:
    """The text with its known names by their first word, and the words that it uses as common ones."""

    text: str
    known: dict[str, list[tuple[str, ...]]]
    common: set[str] = field(default_factory=set[str])


def squeezed(name: str) -> str:
    return " ".join(name.split())


def read_sentences(text: str, known: Iterable[str] = (), *, headings: bool = True) -> Iterator[Sentence]:
    """The sentences of a text in order; `known` names are found in any case."""
    context = _Context(text=text, known=_by_first_word(known))
    sentences = list(_split(text))
    context.common = _common_words([token for tokens, _ in sentences for token in tokens])
    for tokens, end in sentences:
        if headings:
            for part in _parts(tokens):
                if _is_heading(part, end if part[-1] is tokens[-1] else ":", text):
                    for token in part:
                        token.capital = False
        yield Sentence(units=tuple(_units(tokens, context)), question=end == "?")


def _by_first_word(known: Iterable[str]) -> dict[str, list[tuple[str, ...]]]:
    table: dict[str, list[tuple[str, ...]]] = {}
    for name in known:
        words = tuple(token.folded for token in _tokens(name[:MAX_NAME_CHARS]) if token.kind == "word")
        if not 0 < len(words) <= MAX_NAME_WORDS or (len(words) == 1 and words[0] in NEVER_NAMES):
            continue
        same_start = table.setdefault(words[0], [])
        if len(same_start) < _KNOWN_PER_WORD:
            same_start.append(words)
    for names in table.values():
        names.sort(key=len, reverse=True)
    return table


def _split(text: str) -> Iterator[tuple[list[_Token], str]]:
    sentence: list[_Token] = []
    for token in _tokens(text):
        if token.kind == "mark" and token.text in ".!?…\n":
            if sentence:
                yield sentence, token.text
            sentence = []
        else:
            sentence.append(token)
    if sentence:
        yield sentence, ""


def _tokens(text: str) -> Iterator[_Token]:
    initial = True
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        token = _Token(match[kind], match[kind].casefold().replace("’", "'"), match.start(), match.end())
        if kind in ("end", "mark"):
            token.kind = "mark"
            initial = initial or kind == "end" or token.text in ":(|"
        elif kind in ("straight", "curly", "single"):
            token.kind = "quoted"
            initial = False
        else:
            token.initial, token.capital = initial, _is_capital(token.text)
            initial = False
        yield token


def _is_capital(word: str) -> bool:
    if len(word) == 1 or len(word) > MAX_NAME_CHARS or word.islower():
        return False
    inner = any(char.isupper() for char in word[1:])
    return word[0].isupper() or (word[0].islower() and inner and "'" not in word)


def _common_words(tokens: list[_Token]) -> set[str]:
    """Words that the text writes without a capital, or alone behind an article ("the Commander")."""
    common: set[str] = set()
    for at, token in enumerate(tokens):
        if token.kind == "word" and (token.text[0].islower() or (at and tokens[at - 1].folded in ARTICLES)):
            common.add(token.base)
    return common


def _parts(tokens: list[_Token]) -> Iterator[list[_Token]]:
    part: list[_Token] = []
    for token in tokens:
        part.append(token)
        if token.text == ":":
            yield part
            part = []
    if part:
        yield part


def _is_heading(part: list[_Token], end: str, text: str) -> bool:
    words = [token for token in part if token.kind == "word" and not token.text[0].isdigit()]
    written = [token.text for token in words if len(token.text) > 1]
    if len(written) > 3 and all(word.isupper() for word in written):
        return True
    line = text[text.rfind("\n", 0, part[0].start) + 1 : part[0].start]
    if line.lstrip().startswith("#") or any(token.kind == "quoted" for token in part):
        return line.lstrip().startswith("#")
    has_capitals = all(token.capital or (at and token.folded in _IN_HEADINGS) for at, token in enumerate(words))
    return has_capitals and end in ("", "\n", ":")


def _units(tokens: list[_Token], context: _Context) -> Iterator[Unit]:
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if end := _known_end(tokens, at, context):
            yield _name(tokens[at:end], context.text, "name")
            at = end
        elif token.capital and token.kind == "word":
            end = _run_end(tokens, at, context.text)
            yield from _run(tokens, at, end, context)
            at = end
        else:
            yield _quoted(token) if token.kind == "quoted" else _plain(token)
            at += 1


def _quoted(token: _Token) -> Unit:
    name = squeezed(token.text)
    is_name = len(name) <= MAX_NAME_CHARS and 0 < len(name.split()) <= _MAX_QUOTED_WORDS
    if is_name and name[-1] not in ".,;:!?…" and any(char.isalpha() for char in name):
        return Unit("name", name, name.casefold(), quoted=True)
    return Unit("word", "", "")


def _plain(token: _Token) -> Unit:
    return Unit("mark" if token.kind == "mark" else "word", token.text, token.folded)


def _known_end(tokens: list[_Token], at: int, context: _Context) -> int | None:
    if tokens[at].kind != "word":
        return None
    for words in context.known.get(tokens[at].base, ()):
        end = at + len(words)
        given = [token.folded for token in tokens[at:end]]
        if given and given[-1] != words[-1]:
            given[-1] = given[-1].removesuffix("'s")
        if tuple(given) != words or (end < len(tokens) and _joins(tokens, end, context.text)):
            continue
        if all(_is_next(tokens, inside, context.text) for inside in range(at + 1, end)):
            return end
    return None


def _is_next(tokens: list[_Token], at: int, text: str, between: tuple[str, ...] = ("",)) -> bool:
    gap = text[tokens[at - 1].end : tokens[at].start]
    return len(gap) <= 3 and tokens[at].kind == "word" and gap.strip(" \u00a0") in between


def _joins(tokens: list[_Token], at: int, text: str) -> bool:
    before = tokens[at - 1]
    if not tokens[at].capital or before.kind != "word" or before.folded.endswith("'s"):
        return False
    return _is_next(tokens, at, text, ("", "&"))


def _run_end(tokens: list[_Token], at: int, text: str) -> int:
    """Where a run of capitalised words ends, with what is lower-case inside it: Ludwig van Beethoven."""
    end = at + 1
    while end < len(tokens):
        if _joins(tokens, end, text):
            end += 1
            continue
        bridge = _bridge(tokens, at, end)
        if not bridge or not all(_is_next(tokens, end + step, text) for step in range(bridge + 1)):
            break
        end += bridge + 1
    return end


def _bridge(tokens: list[_Token], start: int, at: int) -> int:
    """How many lower-case words of a name begin here with a capital behind them."""
    before = tokens[at - 1]
    if before.folded.endswith("'s"):
        return 0
    size = 0
    # "University of Oslo", but at a sentence's start "Head of Sales" and "Photos of Mira".
    if tokens[at].folded == "of" and before.base not in NEVER_NAMES and not before.initial:
        size = 2 if tokens[at + 1 : at + 2] and tokens[at + 1].folded == "the" else 1
    elif tokens[at].folded in _PARTICLES:
        size = 2 if tokens[at + 1 : at + 2] and tokens[at + 1].folded in _PARTICLES else 1
    following = tokens[at + size : at + size + 1]
    return size if size and following and following[0].capital else 0


def _run(tokens: list[_Token], start: int, end: int, context: _Context) -> Iterator[Unit]:
    """A run of capitalised words: words that are no part of the name, the name, and words again."""
    first, last = start, end
    titles = (at for at in range(start, end - 1) if tokens[at].base in TITLES)
    if (titled := next(titles, None)) is not None:
        first = titled
    else:
        while first < last and not _may_begin(tokens[first], alone=last - first == 1, context=context):
            first += 1
    while last > first + 1 and tokens[last - 1].base in NEVER_NAMES and tokens[last - 2].folded not in _PARTICLES:
        last -= 1
    yield from map(_plain, tokens[start:first])
    if first < last:
        yield _name(tokens[first:last], context.text, _certainty(tokens, first, last, context))
    yield from map(_plain, tokens[last:end])


def _may_begin(token: _Token, *, alone: bool, context: _Context) -> bool:
    if token.base in NEVER_NAMES and not (token.base == "new" and not alone):
        return False
    if not token.initial:
        return True
    is_common = token.base in context.common or is_past_form(token.base) or token.base.endswith(_NO_NAME_ENDS)
    return alone or not is_common


def _certainty(tokens: list[_Token], first: int, last: int, context: _Context) -> Literal["name", "maybe"]:
    token = tokens[first]
    if last - first > 1 or any(char.isupper() for char in token.text[1:]) != token.text.isupper():
        return "name"
    base = token.base.rstrip(".")
    following = tokens[last] if last < len(tokens) and tokens[last].kind == "word" else None
    if (len(base) > 1 and token.text.removesuffix("'s").removesuffix("’s").isupper()) or base in TITLES:
        return "maybe"
    if following is not None and following.text[0].isdigit():
        return "maybe"
    if not token.initial:
        before = tokens[first - 1].folded if first else ""
        return "maybe" if before in ARTICLES or base in context.common else "name"
    if base in context.common or base.endswith(_NO_NAME_ENDS):
        return "maybe"
    is_elsewhere = any(one.base == base and one.capital and not one.initial for one in tokens[last:])
    is_subject = following is not None and _is_verb(following.folded, tokens[last + 1 : last + 2])
    return "name" if is_subject or is_elsewhere or token.folded.endswith("'s") else "maybe"


def _is_verb(word: str, following: list[_Token]) -> bool:
    """Whether a word behind a name is its verb: "Mira has", "Mira likes tea", not "Coffee beans are"."""
    if word in _AUXILIARIES or word.endswith("n't") or is_past_form(word):
        return True
    is_third_person = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return is_third_person and not (following and following[0].folded in ("is", "are", "was", "were"))


def _name(tokens: list[_Token], text: str, kind: Literal["name", "maybe"]) -> Unit:
    name = squeezed(text[tokens[0].start : tokens[-1].end])
    possessive = tokens[-1].folded.endswith("'s") and len(tokens[-1].text) > 2
    if possessive:
        name = name[:-2]
    if len(name) > MAX_NAME_CHARS or len(tokens) > MAX_NAME_WORDS:
        return Unit("word", "", "")
    return Unit(kind, name, name.casefold(), possessive=possessive)
