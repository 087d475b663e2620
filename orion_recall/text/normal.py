"""Text normalisation: keys, storable text, words, normal forms, and text on one line.

Everything here that ranking needs of a memory is computed once, when the memory is written.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?", re.UNICODE)
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u1050-\u109f\u1780-\u17d3\u17d7\u17dc\u17dd"  # Burmese, Khmer
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff"  # Han
    "\u1100-\u11ff\uac00-\ud7a3"  # Hangul: particles are written onto words
)
"""The letters and vowel signs of scripts in which spaces do not part words, as in a regular expression's set."""
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_PIECE = re.compile(rf"[{UNSPACED}]+|[^\W_{UNSPACED}]+(?:['’][^\W_{UNSPACED}]+)?")
_UNUSUAL = re.compile("[\ufb00-\ufb06\uff01-\uffdc]+")
# Tone marks and vowel killers in them: Qdrant's tokenizer would end a word there.
_NO_LETTERS = re.compile("[\u0e47-\u0e4c\u0e4e\u0eba\u0ec8-\u0ecc\u1037\u1039\u103a\u17c9-\u17d3\u17dd]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SPACES = re.compile(r"\s+", re.UNICODE)
# Control and format characters (bidi overrides, zero-width, tags, most variation selectors, joiners): invisible,
# and able to hide text from a reader. Those that separate lines or words are spaces.
_UNSEEN = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\ufe00-\ufe0d\ufeff\ufff0-\ufffb\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
# The selectors of an emoji's form say nothing after a letter or a sign of ASCII, but in keys such as 1\ufe0f\u20e3.
_INVISIBLE = re.compile(rf"[{_UNSEEN}]|(?<![^\w\x00-\x7f\ufe0e\ufe0f{_UNSEEN}])[\ufe0e\ufe0f](?!\u20e3)")
# Characters that are drawn as nothing: fillers of Hangul, the empty pattern of Braille, a musical null.
_BLANK = re.compile("[\u115f\u1160\u2800\u3164\uffa0\U0001d159]")
# Characters that mean something by private agreement alone, and those that are none: what a reader makes of one is
# unknown.
_PRIVATE = re.compile(
    "[\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0xF0000, 0x10000))
    + "]"
)
# Where a mark begins what a reader or a program takes for markup: a tag or a special token, a head or a date
# in brackets, a role in brackets, the field of a template, a fence. Elsewhere marks are code and data, and stay.
# The look-alikes of a tag, a colon and a heading begin no tag: what has been changed stays as it is.
_MARKUP = re.compile(
    r"""<(?=\s*[^\W\d]|\s*/|[|!?]|[^\x00-\x7f\u2039\u2236\u266f])
      | \[(?=\s*(?:\d{4}-|undated\b)) | (?<![a-zA-Z0-9_])\[(?=\s*[^\W\d][\w-]*:)
      | (?<![a-zA-Z0-9_\[])\[(?=\s*/?\s*[^\W\d][\w\s-]{2,30}\](?!\())
      | \[(?=\s*/?[A-Z_\s-]{3,30}\]) | \{(?=\s*[{%#]) | (?<=\$)\{ | (?<=`)`|`(?=`)""",
    re.VERBOSE,
)
_INSTEAD = {"<": "‹", "`": "'", "{": "(", "[": "("}
_MAY_BE_MARKUP = re.compile(r"[<`{[]")
# The wide and the small forms of the marks are read as these.
_WIDE = {"＜": "<", "＞": ">", "｀": "`", "｛": "{", "｝": "}", "｜": "|", "［": "[", "］": "]"}
_SMALL = {"﹤": "<", "﹥": ">", "﹛": "{", "﹜": "}", "︱": "|", "︷": "{", "︸": "}", "﹇": "[", "﹈": "]"}
_NARROW = str.maketrans(_WIDE | _SMALL)

_MOST_MARKS = 30
# No combining mark is a letter, a digit, a space or ASCII.
_MAY_BE_MARKS = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1}}}")

STOP_WORDS: frozenset[str] = frozenset(
    """a about after again all also am an and any are as at be because been before being both but by can could
    did do does doing don't down during each ever few for from further get got had has have having he her here
    hers him his how i i'd i'll i'm i've if in into is it it's its itself just let me might more most my no
    nor not now of off on once only or other our ours out over own same she should so some such than that
    that's the their theirs them then there these they they're this those through to too under until up us very was
    we we're were what what's when where which while who whom whose why will with would you you're your
    yours""".split()
)

_FIRST_PERSON: frozenset[str] = frozenset(
    "i i'm i'd i'll i've me my mine myself we we're we'd we'll we've us our ours ourselves".split()
)
_CLOSING = " \t\r\n\"'”’)]*_"


def number_of(one: str, other: str) -> int:
    """A number of 63 bits for a pair of texts, fixed for ever.

    Numbers, since UUIDs cost a recall more than its ranking does. Among a million memories two share one with a
    chance of 1 in 18 million, among a hundred million of 1 in 1,800.
    """
    digest = hashlib.blake2b(paired(one, other).encode("utf-8", "replace"), digest_size=8, person=b"orion-recall")
    return int.from_bytes(digest.digest(), "big") >> 1


memory_key = number_of
"""The number of a memory (tenant, id) in index and graph: the same in every copy."""


def paired(tenant: str, name: str) -> str:
    """One text for a tenant and a name in it, which no other two give."""
    if "\x1f" in tenant or "\x1f" in name:  # three separators and more: no pair without one looks like this
        return f"{len(tenant)}\x1f{tenant}\x1f{name}"
    return f"{tenant}\x1f{name}"


def storable(value: str) -> str:
    """The text as Postgres and UTF-8 can hold it: NUL and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", value) if _UNSTORABLE.search(value) else value


def storable_json(value: Any) -> Any:
    """A JSON value with every text in it, keys included, made storable."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [storable_json(part) for part in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {storable(str(key)): storable_json(part) for key, part in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value


def fold(text: str) -> str:
    """The text as words are compared: NFKC, without case."""
    if text.isascii():
        return text.casefold()
    return unicodedata.normalize("NFKC", _with_bounded_marks(text)).casefold()


def in_usual_forms(text: str) -> str:
    """The text with full-width and half-width letters and ligatures as they are usually written: models of language
    hardly know those."""
    return text if text.isascii() else _UNUSUAL.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)


def words(text: str) -> list[str]:
    """The words of a text in order, folded, digits kept; of a script without spaces (`UNSPACED`), its overlapping
    pairs of characters, and a character that stands alone."""
    if text.isascii():  # as most text is
        return _WORD.findall(text.casefold())
    folded = fold(text)
    if not _UNSPACED_RUN.search(folded):
        return _WORD.findall(folded)
    return [
        word for piece in _PIECE.findall(folded) for word in (_pairs(piece) if is_unspaced(piece) else (piece,))
    ]


def whole_words(text: str) -> list[str]:
    """The words of a text as they stand between spaces and signs, folded: what tells names and texts apart."""
    return _WORD.findall(fold(text))


def is_unspaced(text: str) -> bool:
    """Whether the text begins with a character of such a script."""
    return _UNSPACED_RUN.match(text) is not None


def indexed_text(text: str) -> str:
    """The text with spaces between its words, for a tokenizer that knows words by spaces; ASCII as it is."""
    if text.isascii():
        return text
    return _UNSPACED_RUN.sub(lambda run: f" {' '.join(_pairs(_NO_LETTERS.sub('', run[0])))} ", fold(text))


def _pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(max(1, len(run) - 1))]


def without_possessive(word: str) -> str:
    """`ana` for `ana's`."""
    return word.removesuffix("'s").removesuffix("’s")


def _with_bounded_marks(text: str) -> str:
    """The text with at most thirty combining marks in a row: normalising takes time quadratic in such runs."""
    if not _MAY_BE_MARKS.search(text):  # as for nearly every text
        return text
    kept: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= _MOST_MARKS:
            kept.append(character)
    return "".join(kept)


def content_words(text: str) -> list[str]:
    """The words that say something: no stop words, and no single letters."""
    return [
        word
        for word in words(text)
        if word not in STOP_WORDS and (len(word) > 1 or word.isdigit() or is_unspaced(word))
    ]


STEM_CHARS = 5
"""Words are compared by so many of their first characters: `repairing` finds `repaired`."""


def stems(terms: Iterable[str]) -> frozenset[str]:
    """The beginnings of the words."""
    # Without a call for each word: a recall does this for hundreds of words.
    return frozenset([term.removesuffix("'s").removesuffix("’s")[:STEM_CHARS] for term in terms]) - {""}


_READ_CHARS = 1000


@lru_cache(maxsize=8_192)
def stems_of_statement(speaker: str | None, title: str | None, text: str) -> frozenset[str]:
    """The stems of a memory's words, its title's and its speaker's; of a long text, of its first 1,000 characters.

    Those of the last memories are kept: a recall asks for a hundred of them, and most were asked for before.
    """
    return stems(words(f"{speaker or ''} {title or ''} {text[:_READ_CHARS]}"))


def is_question(text: str) -> bool:
    """Whether the text ends as a question does."""
    return text.rstrip(_CLOSING).endswith(("?", "？", "؟"))


def speaks_of_itself(text: str) -> bool:
    """Whether the text speaks in the first person. English only."""
    return not _FIRST_PERSON.isdisjoint([word.replace("’", "'") for word in words(text)])


def normal_form(text: str) -> str:
    """The normal form: equal for texts that differ in case, spacing or punctuation only."""
    return " ".join(whole_words(text) or text.split())


def text_hash(text: str) -> str:
    """A hash of the normal form."""
    return hashlib.blake2b(normal_form(text).encode("utf-8", "replace"), digest_size=12).hexdigest()


def one_line(text: str) -> str:
    """Memory text as data on one line: no control or invisible characters, no line of its own, no markup."""
    return without_markup(visible(text))


def visible(text: str) -> str:
    """The text on one line, without control and invisible characters. Wide forms of marks are the plain ones,
    characters that look blank are spaces, and private ones U+FFFD."""
    if text.isascii() and text.isprintable() and "  " not in text:  # as most text is, and far cheaper
        return text.strip()
    shown = _SPACES.sub(" ", _BLANK.sub(" ", _PRIVATE.sub("\ufffd", _INVISIBLE.sub("", text))))
    return shown.translate(_NARROW).strip()


def without_markup(text: str) -> str:
    """The text with look-alikes where a mark begins what could pose as instructions, a template or a bullet."""
    if _MAY_BE_MARKUP.search(text) is None:
        return text
    return _MARKUP.sub(lambda mark: _INSTEAD[mark[0]], text)
