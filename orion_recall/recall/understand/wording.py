"""The plain form of a question: without the words that only ask for it, and with its topic in its place.

plainly("hey, can you remind me what Ana said about the roof please") -> "what Ana said about the roof"
plainly("my spare key, who's holding on to it") -> "who's holding on to my spare key"
plainly("what was Ivone telling me yesterday") -> "what did Ivone tell me yesterday"

English only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

_READ_CHARS: Final = 400
_ASKED: Final = r"(?:what|who|whom|whose|which|when|where|why|how)"
_WHO: Final = r"(?:[A-Z][\w'’-]*(?: [A-Z][\w'’-]*){0,2}|my \w+|our \w+|the \w+|[iI]|we|he|she|they)"
# Each leads to what is asked for, and is left out where that follows.
_LEADS: Final = re.compile(
    rf"""^\W*(?:
      (?:hi|hey|hello|ok|okay|well|right|alright|um|erm|oh|sorry|by\ the\ way|btw
        |(?:a\ |one\ )?(?:quick\ |small\ )?question)[,:;.!–-]+\ *(?=\w)
      |(?:so|and|please|erm|um),?\ +(?=\w)
      |(?:please\ |just\ )*(?:(?:can|could|would|will)\ you\ (?:please\ |just\ |maybe\ )*)?
        (?:tell|remind|show)\ (?:me|us)(?:\ (?:again|please|quickly))*,?\ +(?={_ASKED}\b|if\ |whether\ )
      |(?:please\ |just\ )*(?:(?:can|could|would|will)\ you\ (?:please\ |just\ |maybe\ )*)?
        remind\ (?:me|us)(?:\ (?:again|please))*,?\ +(?:of|about)\ +(?=\w)
      |(?:please\ )?let\ me\ know\ +(?={_ASKED}\b|if\ |whether\ )
      |(?:i|we)\ (?:need|want|would\ like|['’]d\ like|have)\ to\ know\ +(?={_ASKED}\b|if\ |whether\ )
      |(?:i['’]m|i\ am)\ (?:wondering|trying\ to\ remember)\ +(?={_ASKED}\b|if\ |whether\ )
      |(?:i\ wonder|i\ forgot|i['’]ve\ forgotten|i\ have\ forgotten|i\ can['’]?t\ remember|i\ don['’]t\ remember)
        \ +(?={_ASKED}\b|if\ |whether\ )
      |(?:do|would)\ you\ (?:happen\ to\ )?(?:know|remember|recall)\ +(?={_ASKED}\b|if\ |whether\ )
      |any\ idea\ +(?={_ASKED}\b|if\ |whether\ )
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_ENDS: Final = re.compile(
    r"""(?:[\s,;–-]+(?:please|thanks|thank\ you|would\ you|will\ you|could\ you|can\ you)
          |\s*[,;–-]+\s*(?:ta|cheers|mate|i\ mean|i\ wonder|do\ you\ know|any\ idea|(?:remind|tell)\ me)
          |\ i\ mean)(?P<sign>\W*)$""",
    re.VERBOSE | re.IGNORECASE,
)
_CONTRACTED: Final = re.compile(rf"\b({_ASKED})['’](ve|d|re|ll)\b(?!\s+(?:better|rather|like)\b)", re.IGNORECASE)
_FULL: Final[Mapping[str, str]] = {"ve": "have", "d": "did", "re": "are", "ll": "will"}
# "What was it Salma told me", "what was it that I bought".
_WHAT_IT_WAS: Final = re.compile(rf"\b([Ww]hat|[Ww]ho|[Ww]here|[Ww]hen) (?:was|is) it (?:that )?(?={_WHO} )")
_SAYING: Final[Mapping[str, str]] = {
    "saying": "say", "telling": "tell", "writing": "write", "mentioning": "mention",
}  # fmt: skip
_WAS_SAYING: Final = re.compile(
    rf"\b[Ww]hat (?:(?:was|were|has|have) )?(?P<who>{_WHO}) (?:(?:was|has|had) )?(?:been )?"
    rf"(?P<verb>{'|'.join(_SAYING)})\b"
)
_TOLD: Final[Mapping[str, str]] = {
    "said": "say", "told": "tell", "asked": "ask", "wrote": "write", "mentioned": "mention",
    "wanted to know": "ask", "has written": "write", "has said": "say", "has told": "tell",
}  # fmt: skip
_HAS_TOLD: Final = "|".join(re.escape(one) for one in _TOLD)
# "Florence asked me something today, what was it".
_SOMETHING: Final = re.compile(
    rf"""^(?P<who>{_WHO})\ (?P<verb>{_HAS_TOLD})(?P<whom>\ (?:me|us))?
        \ something(?:\ (?:to|from|of)\ (?:me|us))?(?P<rest>\b.*?)[,;.–-]*\ +what\ (?:was|is)\ (?:it|that)\W*$""",
    re.VERBOSE,
)
# "Inês has written about her farewell, what does she say".
_ABOUT_WHAT: Final = re.compile(
    rf"""^(?P<who>{_WHO})\ (?P<verb>{_HAS_TOLD})(?P<whom>\ (?:me|us))?
        \ (?P<rest>(?:about|of|on)\b.*?)[,;.–-]*
        \ +what\ (?:does|did)\ (?:he|she|they|it)\ (?:say|write|tell\ \w+)\W*$""",
    re.VERBOSE,
)
# "Ana's message about the ferry said": of "what" asked for, and who wrote it.
_MESSAGE_SAID: Final = re.compile(
    rf"""\bwhat\ (?P<who>{_WHO})['’]s\ (?:last\ |latest\ )?(?:message|mail|email|note|text|letter)\ (?P<rest>.*?)\ ?
        \b(?:said|says)(?=\W*$)""",
    re.VERBOSE,
)
# "My spare key, who has it?", "Ana's boss, what's her name?", "Carla, who's she?"; not "Finn fell, where was it?"
_TOPIC_FIRST: Final = re.compile(
    rf"""^(?P<topic>(?:[Mm]y|[Oo]ur|[Tt]he|[Hh]is|[Hh]er|[Tt]heir|[Tt]his|[Tt]hat)(?:\ [\w'’-]+){{1,6}}
        |[A-Z][\w-]*(?:\ [A-Z][\w-]*){{0,2}}(?:['’]s(?:\ [\w'’-]+){{1,4}})?)\ ?[,–-]+\ +(?P<asked>{_ASKED}\b.*)$""",
    re.VERBOSE,
)
_ABOUT_FIRST: Final = re.compile(
    rf"^((?:about|regarding|concerning) [^,;:!?]{{2,60}}), +({_ASKED}\b.*?)(\W*)$", re.IGNORECASE
)
_THIS_ONE: Final = re.compile(
    r"\b(?:(?P<whose>its|their|her|his)(?=\ [a-z])|it|they|them|she|her|he|him|that(?=\W*$))\b(?!['’])",
    re.IGNORECASE,
)
_IS_THIS_ONE: Final = re.compile(r"\b(who|what|where)(['’]s| is| are) (?:it|they|she|he)(?=\W*$)", re.IGNORECASE)
_NO_TOPIC: Final = frozenset(
    """in on at by for from since until till before after during last next this yesterday today tomorrow tonight if
    when while because so and but or yes no hi hey hello thanks ok okay is are was were do does did has have had
    will what who where which why how based given""".split()
)


def plainly(text: str) -> str:
    """The question in its plain form; as it is where there is none, and where it is longer than 400 characters."""
    if len(text) > _READ_CHARS:
        return text
    plain = _without_ends(_without_leads(text))
    plain = _CONTRACTED.sub(lambda found: f"{found[1]} {_FULL[found[2].lower()]}", plain)
    for pattern, put in _REWRITES:
        plain = pattern.sub(put, plain)
    return _with_topic(plain)


def _without_leads(text: str) -> str:
    while (found := _LEADS.match(text)) is not None and len(text[found.end() :].split()) > 1:
        text = text[found.end() :]
    return text


def _without_ends(text: str) -> str:
    while (found := _ENDS.search(text)) is not None and len(text[: found.start()].split()) > 1:
        text = text[: found.start()] + found["sign"]
    return text


def _asked_of_saying(found: re.Match[str]) -> str:
    return f"what did {found['who']} {_SAYING[found['verb']]}"


def _asked_of_something(found: re.Match[str]) -> str:
    return (
        f"what did {found['who']} {_TOLD[found['verb']]}{found['whom'] or ''} {found['rest'].strip()}".rstrip()
        + "?"
    )


def _asked_of_message(found: re.Match[str]) -> str:
    return f"what did {found['who']} write {found['rest']}"


_REWRITES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (_WHAT_IT_WAS, r"\1 "),
    (_WAS_SAYING, _asked_of_saying),
    (_SOMETHING, _asked_of_something),
    (_ABOUT_WHAT, _asked_of_something),
    (_MESSAGE_SAID, _asked_of_message),
)


def _with_topic(text: str) -> str:
    """The question with what stands before it in the place of its pronoun."""
    if about := _ABOUT_FIRST.match(text):
        return f"{about[2]} {about[1][0].lower()}{about[1][1:]}{about[3]}"
    found = _TOPIC_FIRST.match(text)
    if found is None or (pronoun := _THIS_ONE.search(found["asked"])) is None:
        return text
    topic, asked = found["topic"], found["asked"]
    if topic.casefold().split()[0] in _NO_TOPIC:
        return text
    if is_it := _IS_THIS_ONE.search(asked):
        return f"{asked[: is_it.start()]}{is_it[1]}{is_it[2]} {topic}{asked[is_it.end() :]}"
    if pronoun["whose"]:
        topic += "'s"
    return asked[: pronoun.start()] + topic + asked[pronoun.end() :]
