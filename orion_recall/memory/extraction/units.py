"""Splits a text into sentences of names, words and punctuation, for light extraction.

A name is a quoted phrase, a run of capitalised words, or a name that was given. Everything is one pass
over tokens with a bounded look-ahead, so that the time grows with the text's length and no faster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from orion_recall.memory.extraction.word_lists import (
    BEFORE_MONTHS,
    CALENDAR,
    COMMON_ALONE,
    COMMON_ENDS,
    COMMON_STARTS,
    FIRST_PERSON,
    MONTH_NAMES,
    NAMES_THAT_LOOK_COMMON,
    NEVER_ALONE,
    NEVER_NAMES,
    OF_HEADS,
    PARTICLES,
    TITLES,
    TITLES_BEFORE_NAMES,
)

MAX_NAME_CHARS = 80
_MAX_NAME_WORDS = 8
_SHOUT_WORDS = 4
# "Do" begins sentences more often than names.
_NAME_PARTICLES = PARTICLES - NEVER_NAMES
# Known names that begin with one word: bounds the work at each word of the text.
_KNOWN_PER_WORD = 4

_TOKEN = re.compile(
    r"""
    "(?P<straight>[^"\n]{2,80})" | [“«](?P<curly>[^“”«»\n]{2,80})[”»]
    | (?P<short>(?:[^\W\d_]\.){2,} | (?:Mrs?|Ms|Dr|Prof|St|Jr|Sr|Mt)\.(?=[ ]\w) | [A-HJ-Z]\.(?=[ ][A-Z]))
    | (?P<word>[^\W_](?:[^\W_]|[\u0300-\u036f])*(?:['’&\-][^\W_](?:[^\W_]|[\u0300-\u036f])*)*)
    | (?P<end>[.!?…\n]) | (?P<mark>[,;:()—–])
    """,
    re.VERBOSE,
)


class Unit(NamedTuple):
    """A name, a word or punctuation. `folded` is for matching; a possessive name is given without its 's."""

    kind: Literal["name", "word", "mark"]
    text: str
    folded: str
    possessive: bool = False
    quoted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """The units of one sentence, without its full stop."""

    units: tuple[Unit, ...]
    question: bool


@dataclass(slots=True, kw_only=True)
class _Token:
    text: str
    folded: str
    start: int
    end: int
    kind: Literal["word", "quoted", "mark"]
    initial: bool = False
    capital: bool = False


@dataclass(slots=True, kw_only=True)
class _Reader:
    """What the whole text tells about its words."""

    text: str
    lower: set[str] = field(default_factory=set[str])
    known: dict[str, list[tuple[str, ...]]] = field(default_factory=dict[str, list[tuple[str, ...]]])


def squeezed(name: str) -> str:
    """A name on one line, with single spaces."""
    return " ".join(name.split())


def read_sentences(text: str, known: Iterable[str] = ()) -> Iterator[Sentence]:
    """The sentences of a text in order; `known` names are found in lower case too."""
    reader = _Reader(text=text)
    for name in known:
        parts = tuple(token.folded for token in _tokens(name[:MAX_NAME_CHARS]) if token.kind == "word")
        same_start = reader.known.setdefault(parts[0], []) if parts else []
        if len(same_start) < _KNOWN_PER_WORD and 0 < len(parts) <= _MAX_NAME_WORDS and not _is_bare(parts):
            same_start.append(parts)
    for names in reader.known.values():
        names.sort(key=len, reverse=True)
    tokens = list(_tokens(text))
    reader.lower = {token.folded for token in tokens if token.kind == "word" and token.text[0].islower()}
    sentence: list[_Token] = []
    for token in tokens:
        if token.kind == "mark" and token.text in ".!?…\n":
            if sentence:
                yield _sentence(sentence, reader, question=token.text == "?")
            sentence = []
        else:
            sentence.append(token)
    if sentence:
        yield _sentence(sentence, reader, question=False)


def _is_bare(parts: tuple[str, ...]) -> bool:
    return len(parts) == 1 and parts[0] in NEVER_NAMES


def _tokens(text: str) -> Iterator[_Token]:
    initial = True
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        content = match[kind]
        if kind in ("straight", "curly") and not any(char.isalpha() for char in content):
            continue
        if kind in ("end", "mark"):
            initial = initial or kind == "end" or content in ":("
            yield _Token(text=content, folded=content, start=match.start(), end=match.end(), kind="mark")
            continue
        quoted = kind in ("straight", "curly")
        folded = content.casefold().replace("’", "'")
        yield _Token(
            text=content,
            folded=folded,
            start=match.start(),
            end=match.end(),
            kind="quoted" if quoted else "word",
            initial=initial,
            capital=not quoted and folded not in FIRST_PERSON and _is_capital(content, kind),
        )
        initial = False


def _is_capital(word: str, kind: str) -> bool:
    if len(word) == 1 or len(word) > MAX_NAME_CHARS:
        return False
    if kind == "short":
        return word[0].isupper()
    if word.isascii() and word.islower():  # as most are
        return False
    return word[0].isupper() or (word[0].islower() and any(char.isupper() for char in word[1:]))


def _sentence(tokens: list[_Token], reader: _Reader, *, question: bool) -> Sentence:
    plain = [token.text for token in tokens if token.kind == "word" and len(token.text) > 1]
    if len(plain) >= _SHOUT_WORDS and all(word.isupper() for word in plain):
        for token in tokens:
            token.capital = False
    units: list[Unit] = []
    at = 0
    while at < len(tokens):
        at = _take(tokens, at, reader, units)
    return Sentence(units=tuple(units), question=question)


def _take(tokens: list[_Token], at: int, reader: _Reader, units: list[Unit]) -> int:
    """Adds the unit, or the name, that begins at a token; returns where the next one begins."""
    token = tokens[at]
    if token.kind == "mark":
        units.append(Unit("mark", token.text, token.text))
        return at + 1
    if token.kind == "quoted":
        name = squeezed(token.text).rstrip(".,;:!? ")
        if name and len(name.split()) <= _MAX_NAME_WORDS:
            units.append(Unit(kind="name", text=name, folded=name.casefold(), quoted=True))
        return at + 1
    if end := _known_end(tokens, at, reader):
        units.append(_name(tokens[at:end], reader.text))
        return end
    if not token.capital:
        units.append(_plain(token))
        return at + 1
    end = _run_end(tokens, at, reader.text)
    _add_run(tokens[at:end], reader, units)
    return end


def _known_end(tokens: list[_Token], at: int, reader: _Reader) -> int | None:
    first = tokens[at].folded.removesuffix("'s")
    for parts in reader.known.get(first, ()):
        end = at + len(parts)
        given = [token.folded for token in tokens[at:end]]
        if given and given[-1] != parts[-1]:
            given[-1] = given[-1].removesuffix("'s")
        if tuple(given) != parts or (end < len(tokens) and _joins(tokens, end, reader.text)):
            continue
        if all(_near(tokens, inside, reader.text) for inside in range(at + 1, end)):
            return end
    return None


def _joins(tokens: list[_Token], at: int, text: str) -> bool:
    """Whether a capitalised token continues the name before it: nothing but a space (or ` & `) between."""
    before, token = tokens[at - 1], tokens[at]
    if not token.capital or before.kind != "word" or token.start - before.end > 3:
        return False
    return not before.folded.endswith("'s") and text[before.end : token.start].strip(" \u00a0") in ("", "&")


def _run_end(tokens: list[_Token], at: int, text: str) -> int:
    """Where a run of capitalised words ends, particles inside it included."""
    end = at + 1
    while end < len(tokens):
        if _joins(tokens, end, text):
            end += 1
            continue
        bridge = _bridge(tokens, end)
        if not bridge or not all(_near(tokens, end + step, text) for step in range(bridge + 1)):
            break
        end += bridge + 1
    return end


def _bridge(tokens: list[_Token], at: int) -> int:
    """How many lower-case words of a name begin here with a capital after them; 0 for none."""
    before = tokens[at - 1].folded
    if before.endswith("'s"):
        return 0
    size = 0
    if tokens[at].folded == "of" and before in OF_HEADS:
        size = 2 if at + 1 < len(tokens) and tokens[at + 1].folded == "the" else 1
    elif tokens[at].folded in PARTICLES:
        size = 2 if at + 1 < len(tokens) and tokens[at + 1].folded in PARTICLES else 1
    return size if size and at + size < len(tokens) and tokens[at + size].capital else 0


def _near(tokens: list[_Token], at: int, text: str) -> bool:
    gap = tokens[at].start - tokens[at - 1].end
    return gap <= 2 and text[tokens[at - 1].end : tokens[at].start].strip(" \u00a0") == ""


def _add_run(run: list[_Token], reader: _Reader, units: list[Unit]) -> None:
    """Adds a run as words that are no part of a name, the name, and words again."""
    first, last = 0, len(run)
    while first < last and _never_begins(run[first], reader):
        before = run[first - 1].folded if first else units[-1].folded if units else ""
        if (
            _is_new_place(run[first:last])
            or _is_month_and_surname(run[first:last], before)
            or (before in TITLES and _with_particles(run, first) > first)
        ):
            break
        first += 1
    least = _titled_end(run, first)
    while last > least and _base(run[last - 1]) in NEVER_NAMES and not _follows_particle(run, last - 1):
        last -= 1
    if last - first == 1 and _is_no_name_alone(run[first]):
        last = first
    units.extend(_plain(token) for token in run[:first])
    if first < last:
        name = _name(run[first:last], reader.text)
        fits = len(name.text) <= MAX_NAME_CHARS and last - first <= _MAX_NAME_WORDS
        units.append(name if fits else Unit(kind="word", text="", folded=""))
    units.extend(_plain(token) for token in run[last:])


def _titled_end(run: list[_Token], first: int) -> int:
    """Where the name behind a title ends at least, though its words are common ones: Mrs. Ten Have, Mr. Will.

    `first` is the title, or the first word behind one that is no part of a name ("Mrs Ten Have").
    """
    if first < len(run) and (title := run[first].folded) in TITLES and title.endswith("."):
        # Only after these no sentence begins: "I saw the Dr. On Monday ..."
        least = min(first + 2, len(run)) if title in TITLES_BEFORE_NAMES else first
        return max(least, _with_particles(run, first + 1) if len(run) > first + 1 else first)
    return _with_particles(run, first) if first and run[first - 1].folded in TITLES else first


def _with_particles(run: list[_Token], at: int) -> int:
    """Where a surname ends that begins at a token with particles: ten Have, Van der Berg; `at` without any."""
    end = at
    while end < len(run) and run[end].folded in _NAME_PARTICLES:
        end += 1
    return min(end + 1, len(run)) if end > at else at


def _follows_particle(run: list[_Token], at: int) -> bool:
    """Whether a small particle makes the token a part of a name: Jan ten Have; a day of the week is none."""
    return at > 0 and not run[at - 1].capital and run[at - 1].folded in PARTICLES and run[at].folded not in CALENDAR


def is_named_like_a_month(word: str, before: str) -> bool:
    """Whether a capitalised word, folded, may be somebody's name here; `before` is the word before it, folded."""
    return word in MONTH_NAMES and not before[:1].isdigit() and before not in BEFORE_MONTHS


def _is_month_and_surname(run: list[_Token], before: str) -> bool:
    """April Berg; not "in April Berg", "3 May Berg", "May Berg come in?"."""
    if len(run) < 2 or not is_named_like_a_month(run[0].folded, before):
        return False
    return _base(run[1]) not in NEVER_NAMES and not (run[0].initial and run[0].folded == "may")


def _is_new_place(run: list[_Token]) -> bool:
    """New York, New Orleans."""
    return run[0].folded == "new" and len(run) > 1


def _is_no_name_alone(token: _Token) -> bool:
    base = _base(token).rstrip(".")
    return base in NEVER_ALONE or token.folded in TITLES or (token.initial and base in COMMON_ALONE)


def _plain(token: _Token) -> Unit:
    return Unit("word", token.text, token.folded)


def _base(token: _Token) -> str:
    return token.folded.removesuffix("'s")


def _never_begins(token: _Token, reader: _Reader) -> bool:
    base = _base(token)
    if base in NEVER_NAMES or not token.capital:
        return True
    if not token.initial:
        return False
    looks_common = len(base) > 5 and base.endswith(COMMON_ENDS) and base not in NAMES_THAT_LOOK_COMMON
    contracted = base.endswith(("'ve", "'re", "'d", "'ll", "n't"))
    return base in COMMON_STARTS or base in reader.lower or looks_common or contracted


def _name(tokens: list[_Token], text: str) -> Unit:
    name = squeezed(text[tokens[0].start : tokens[-1].end])
    possessive = tokens[-1].folded.endswith("'s") and len(tokens[-1].text) > 2
    if possessive:
        name = name[:-2]
    return Unit(kind="name", text=name, folded=name.casefold(), possessive=possessive)
