"""Sentences of a text as units: names, words and punctuation.

A name is a quoted phrase, a run of capitalised words, or a known name in any case. A capital tells nothing at the
start of a sentence, in a heading, in capitals throughout (UTC), behind an article (the Board) or before a number
(Room 12): such words are "maybe" names, which only the end of a statement makes names. No list says what is a name.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from orion_recall.text.normal import STOP_WORDS
from orion_recall.when.direction import is_past_form

MAX_NAME_CHARS, MAX_NAME_WORDS, _MAX_QUOTED_WORDS = 80, 8, 6
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
    (?P<short>(?:[^\W\d_]\.){2,} | (?:Mrs?|Ms|Dr|Prof|St|Jr|Sr|Mt)\.(?=[ ]\w) | [A-HJ-Z]\.(?=[ ][A-Z]))
    | (?P<word>[^\W_](?:[^\W_]|[\u0300-\u036f])*(?:['’&\-][^\W_](?:[^\W_]|[\u0300-\u036f])*)*)
    | "(?P<straight>[^"\n]+)" | [“«](?P<curly>[^“”«»\n]+)[”»]
    | (?<!\w)['‘](?P<single>(?:[^'‘’\n]|(?<=\w)['’](?=\w))+)['’](?!\w)
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


def squeezed(name: str) -> str:
    return " ".join(name.split())


def read_sentences(text: str, known: Iterable[str] = (), *, headings: bool = True) -> Iterator[Sentence]:
    """The sentences of a text in order; `known` names are found in any case."""
    sentences: list[tuple[list[_Token], str]] = [([], "")]
    for token in _tokens(text):
        if token.kind == "mark" and token.text in ".!?…\n":
            sentences[-1] = sentences[-1][0], token.text
            sentences.append(([], ""))
        else:
            sentences[-1][0].append(token)
    sentences = [(tokens, end) for tokens, end in sentences if tokens]
    known_names, common = _by_first_word(known), _common_words([one for tokens, _ in sentences for one in tokens])
    for tokens, end in sentences:
        if headings:
            for part in _parts(tokens):
                if _is_heading(part, end if part[-1] is tokens[-1] else ":", text):
                    for token in part:
                        token.capital = False
        reader = _Reader(text, tokens, known_names, common)
        yield Sentence(units=tuple(reader.units()), question=end == "?")


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


def _tokens(text: str) -> Iterator[_Token]:
    initial = True
    for match in _TOKEN.finditer(text):
        kind, (start, end) = match.lastgroup or "", match.span()
        said = match[kind]
        folded = said.casefold().replace("’", "'")
        if kind in ("end", "mark"):
            yield _Token(said, folded, start, end, "mark")
            initial = initial or kind == "end" or said in ":(|"
            continue
        if kind in ("word", "short"):
            yield _Token(said, folded, start, end, "word", initial, _is_capital(said))
        else:
            yield _Token(said, folded, start, end, "quoted")
        initial = False


def _is_capital(word: str) -> bool:
    if len(word) == 1 or len(word) > MAX_NAME_CHARS or word.islower():
        return False
    first = word[0]
    return first.isupper() or (first.islower() and "'" not in word and any(map(str.isupper, word)))


def _common_words(tokens: list[_Token]) -> set[str]:
    """Words that the text writes without a capital, or alone behind an article ("the Commander")."""
    return {
        token.base
        for at, token in enumerate(tokens)
        if token.kind == "word" and (token.text[0].islower() or (at and tokens[at - 1].folded in ARTICLES))
    }


def _parts(tokens: list[_Token]) -> Iterator[list[_Token]]:
    """The parts of a sentence, each up to its colon."""
    start = 0
    for end in [at for at, token in enumerate(tokens, 1) if token.text == ":" or at == len(tokens)]:
        yield tokens[start:end]
        start = end


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


def _quoted(token: _Token) -> Unit:
    name = squeezed(token.text)
    is_name = len(name) <= MAX_NAME_CHARS and 0 < len(name.split()) <= _MAX_QUOTED_WORDS
    if is_name and name[-1] not in ".,;:!?…" and any(char.isalpha() for char in name):
        return Unit("name", name, name.casefold(), quoted=True)
    return Unit("word", "", "")


def _plain(token: _Token) -> Unit:
    return Unit("mark" if token.kind == "mark" else "word", token.text, token.folded)


@dataclass(slots=True)
class _Reader:
    """The words of one sentence in its text; known names by their first word, and the text's common words."""

    text: str
    tokens: list[_Token]
    known: Mapping[str, list[tuple[str, ...]]]
    common: set[str]

    def units(self) -> Iterator[Unit]:
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if end := self._known_end(at):
                yield self._name(at, end, "name")
                at = end
            elif token.capital and token.kind == "word":
                end = self._run_end(at)
                yield from self._run(at, end)
                at = end
            else:
                yield _quoted(token) if token.kind == "quoted" else _plain(token)
                at += 1

    def _known_end(self, at: int) -> int | None:
        tokens = self.tokens
        for words in self.known.get(tokens[at].base, ()) if tokens[at].kind == "word" else ():
            end = at + len(words)
            given = [token.folded for token in tokens[at:end]]
            if given and given[-1] != words[-1]:
                given[-1] = given[-1].removesuffix("'s")
            if tuple(given) != words or (end < len(tokens) and self._joins(end)):
                continue
            if all(self._is_next(inside) for inside in range(at + 1, end)):
                return end
        return None

    def _is_next(self, at: int, between: tuple[str, ...] = ("",)) -> bool:
        gap = self.text[self.tokens[at - 1].end : self.tokens[at].start]
        return len(gap) <= 3 and self.tokens[at].kind == "word" and gap.strip(" \u00a0") in between

    def _joins(self, at: int) -> bool:
        before = self.tokens[at - 1]
        is_open = before.kind == "word" and not before.folded.endswith("'s")
        return is_open and self.tokens[at].capital and self._is_next(at, ("", "&"))

    def _run_end(self, at: int) -> int:
        """Where a run of capitalised words ends, with what is lower-case inside it: Ludwig van Beethoven."""
        end = at + 1
        while end < len(self.tokens):
            bridge = 0
            if not self._joins(end):
                bridge = self._bridge(end)
                if not bridge or not all(self._is_next(end + step) for step in range(bridge + 1)):
                    break
            end += bridge + 1
        return end

    def _bridge(self, at: int) -> int:
        """How many lower-case words of a name begin here with a capital behind them."""
        before, token = self.tokens[at - 1], self.tokens[at]
        if before.folded.endswith("'s"):
            return 0
        # "University of Oslo", but at a sentence's start "Head of Sales" and "Photos of Mira".
        is_of = token.folded == "of" and before.base not in NEVER_NAMES and not before.initial
        if not is_of and token.folded not in _PARTICLES:
            return 0
        more: Collection[str] = ("the",) if is_of else _PARTICLES
        size = 2 if any(one.folded in more for one in self.tokens[at + 1 : at + 2]) else 1
        return size if any(one.capital for one in self.tokens[at + size : at + size + 1]) else 0

    def _run(self, start: int, end: int) -> Iterator[Unit]:
        """A run of capitalised words: words that are no part of the name, the name, and words again."""
        tokens, first, last = self.tokens, start, end
        titled = next((at for at in range(start, end - 1) if tokens[at].base in TITLES), None)
        if titled is not None:
            first = titled
        else:
            while first < last and not self._may_begin(tokens[first], alone=last - first == 1):
                first += 1
        while (
            last > first + 1 and tokens[last - 1].base in NEVER_NAMES and tokens[last - 2].folded not in _PARTICLES
        ):
            last -= 1
        yield from map(_plain, tokens[start:first])
        if first < last:
            yield self._name(first, last, self._certainty(first, last))
        yield from map(_plain, tokens[last:end])

    def _may_begin(self, token: _Token, *, alone: bool) -> bool:
        if token.base in NEVER_NAMES and not (token.base == "new" and not alone):
            return False
        is_common = token.base in self.common or is_past_form(token.base) or token.base.endswith(_NO_NAME_ENDS)
        return not token.initial or alone or not is_common

    def _certainty(self, first: int, last: int) -> Literal["name", "maybe"]:
        tokens, token = self.tokens, self.tokens[first]
        if last - first > 1 or any(char.isupper() for char in token.text[1:]) != token.text.isupper():
            return "name"
        base = token.base.rstrip(".")
        following = tokens[last] if last < len(tokens) and tokens[last].kind == "word" else None
        if (len(base) > 1 and token.text.removesuffix("'s").removesuffix("’s").isupper()) or base in TITLES:
            return "maybe"
        if (following is not None and following.text[0].isdigit()) or base in self.common:
            return "maybe"
        if not token.initial:
            return "maybe" if first and tokens[first - 1].folded in ARTICLES else "name"
        if base.endswith(_NO_NAME_ENDS):
            return "maybe"
        is_elsewhere = any(one.base == base and one.capital and not one.initial for one in tokens[last:])
        is_subject = following is not None and _is_verb(following.folded, tokens[last + 1 : last + 2])
        return "name" if is_subject or is_elsewhere or token.folded.endswith("'s") else "maybe"

    def _name(self, first: int, last: int, kind: Literal["name", "maybe"]) -> Unit:
        end = self.tokens[last - 1]
        name = squeezed(self.text[self.tokens[first].start : end.end])
        possessive = end.folded.endswith("'s") and len(end.text) > 2
        if possessive:
            name = name[:-2]
        if len(name) > MAX_NAME_CHARS or last - first > MAX_NAME_WORDS:
            return Unit("word", "", "")
        return Unit(kind, name, name.casefold(), possessive=possessive)


def _is_verb(word: str, following: list[_Token]) -> bool:
    """Whether a word behind a name is its verb: "Mira has", "Mira likes tea", not "Coffee beans are"."""
    if word in _AUXILIARIES or word.endswith("n't") or is_past_form(word):
        return True
    is_third_person = len(word) > 3 and word.endswith("s") and not word.endswith("ss")
    return is_third_person and not (following and following[0].folded in ("is", "are", "was", "were"))
