"""Names and words for people, and titles: kin, which speakers are assistants, titles that a text may name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from orion_recall.text.normal import STOP_WORDS, whole_words, without_possessive, words

# The plain word for a relation in a family, and other spellings of it. The graph names relations by it.
_SPELLINGS: Final = """
mother: mum mom mama mamma maman mummy mommy
father: dad papa daddy
grandmother: grandma granny nana gran nan oma
grandfather: grandpa granddad grandad opa
stepmother: stepmum stepmom
stepfather: stepdad
husband: hubby
aunt: auntie aunty
"""
# Words that are searched for, too, and those that are asked for by them.
_ALSO: Final = """
sister: sis
brother: bro
parents: mother father mum mom dad
siblings: brother sister
grandparents: grandmother grandfather grandma grandpa
husband: spouse
wife: spouse
spouse: husband wife
son: boy
daughter: girl
cousin: cousins
twin: twins
"""
_ALONE: Final = """uncle niece nephew mother-in-law father-in-law sister-in-law brother-in-law
in-laws partner child children kids"""
_FAMILY: Final = "family families relatives relations kin folks"


def _table(lines: str) -> dict[str, tuple[str, ...]]:
    parts = [line.partition(":") for line in lines.strip().splitlines()]
    return {word: tuple(others.split()) for word, _, others in parts}


SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = _table(_SPELLINGS)
"""Other spellings of a relation by its plain word: mother has mum, mom and maman."""
SYNONYMS: Final[dict[str, tuple[str, ...]]] = {}
"""Further words to search for, by a word of a question: mother gives mum, mom and maman, family gives all kin."""
for _first, _others in (*SPELLINGS.items(), *_table(_ALSO).items()):
    SYNONYMS[_first] = tuple(dict.fromkeys((*SYNONYMS.get(_first, ()), *_others)))
    for _other in _others:
        SYNONYMS.setdefault(_other, (_first,))
KIN: Final[frozenset[str]] = frozenset(SYNONYMS).union(_ALONE.split()) - {"boy", "girl", "gran", "partner"}
"""Words that name a relative."""
SYNONYMS.update(dict.fromkeys(_FAMILY.split(), tuple(sorted(word for word in KIN if "-" not in word))))

ASSISTANT: Final = "assistant"
"""The role as chat formats write it in a message's `role`."""

# A name with one of these words is an assistant's.
_ASSISTANT_WORDS: Final = frozenset("bot chatbot chatgpt copilot llm".split())
# So is one of these words, alone or with those of the next list: a "dental assistant" is a person.
_WITH_OTHERS: Final = frozenset("assistant assistent asistente assistente agent model gpt".split())
_OTHERS: Final = frozenset("ai the my our your virtual digital personal voice chat language helper".split())
# "Ai" is a given name, "AI" and "ai" are none.
_AI: Final = frozenset(("AI", "ai", "A.I.", "a.i."))


@lru_cache(maxsize=4096)
def names_assistant(speaker: str | None) -> bool:
    """Whether a speaker's name is an assistant's: "Assistant", "AI", "Support Bot", and not "Dental assistant"."""
    if not speaker:
        return False
    said = frozenset(words(speaker))
    is_role = not _WITH_OTHERS.isdisjoint(said) and said <= _WITH_OTHERS | _OTHERS
    return is_role or speaker.strip() in _AI or not _ASSISTANT_WORDS.isdisjoint(said)


def is_assistant(speaker: str | None, *, agent_id: str | None = None, role: object = None) -> bool:
    """Whether an assistant says it: by the message's role, because the speaker is its agent, or by name."""
    if isinstance(role, str) and role.strip():
        return role.strip().casefold() == ASSISTANT
    if speaker and agent_id and speaker.casefold() == agent_id.casefold():
        return True
    return names_assistant(speaker)


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?", re.UNICODE)
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
# Names longer than this are titles of works, which texts quote in part; longer runs would double what is asked for.
_LONGEST_NAME, _LONGEST_PLAIN = 6, 3
# A text is read for names up to here: what it is about stands at its beginning.
_READ_CHARS = 4000


def title_names(title: str) -> tuple[str, ...]:
    """The names that a title can be called by, folded: "Mercury (planet)" is `mercury planet` and `mercury`."""
    spelled = (title, _IN_BRACKETS.sub("", title))
    folded = (whole_words(one[:_READ_CHARS]) for one in spelled)
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
