"""Titles as names: the names of a titled memory, and the names in a text that may be titles.

Both sides are folded alike, so that a text points to a memory wherever the memory's title stands in it. Nothing
here knows what titles there are: a text gives every run of words that may be one, and an index says which are.
"""

from __future__ import annotations

import re
import unicodedata

from orion_recall.text.normal import STOP_WORDS, without_possessive, words

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?", re.UNICODE)
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
# Names longer than this are titles of works, which texts quote in part; longer runs would double what is asked for.
_LONGEST_NAME, _LONGEST_PLAIN = 6, 3
# A text is read for names up to here: what it is about stands at its beginning.
_READ_CHARS = 4000


def title_names(title: str) -> tuple[str, ...]:
    """The names that a title can be called by, folded: as it stands, and without brackets at its end.

    "Mercury (planet)" is `mercury planet` and `mercury`. A title without words, or of more than six, has none.
    """
    spelled = (title, _IN_BRACKETS.sub("", title))
    folded = (words(one[:_READ_CHARS]) for one in spelled)
    return tuple(dict.fromkeys(" ".join(name) for name in folded if 0 < len(name) <= _LONGEST_NAME))


def names_in(text: str) -> frozenset[str]:
    """Every run of words of the text that may be a title's name, folded.

    From a capital or a digit on up to six words, from any other word up to three; none begins with a small stop
    word or ends in a stop word, and a single word needs a capital. An 's at the end may be part of a name or not.
    """
    read = text[:_READ_CHARS]
    written = _WORD.findall(read if read.isascii() else unicodedata.normalize("NFKC", read))
    folded = [word.casefold() for word in written]
    names: set[str] = set()
    for start, word in enumerate(written):
        stands_out = word[0].isupper() or word[0].isdigit()
        if folded[start] in STOP_WORDS and not stands_out:
            continue
        longest = _LONGEST_NAME if stands_out else _LONGEST_PLAIN
        for end in range(start, min(start + longest, len(folded))):
            last = folded[end]
            if last in STOP_WORDS or (end == start and not word[0].isupper()):
                continue
            before = folded[start:end]
            names.add(" ".join((*before, last)))
            if (bare := without_possessive(last)) != last and bare not in STOP_WORDS:
                names.add(" ".join((*before, bare)))
    return frozenset(names)
