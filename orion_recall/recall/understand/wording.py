"""The plain form of a question: without the words that only ask for it, and with its topic in its place.

plainly("hey, can you remind me what Ana said about the roof please") -> "what Ana said about the roof"
plainly("my spare key, who's holding on to it") -> "who's holding on to my spare key"
plainly("what was Ivone telling me yesterday") -> "what did Ivone tell me yesterday"
plainly("I'm filling in a form, so could you tell me where Ana works") -> "where Ana works"
plainly("Tobi phone number pls") -> "what is Tobi's phone number"

English only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from orion_recall.text.normal import content_words

_READ_CHARS: Final = 400
_ASKED: Final = r"(?:what|who|whom|whose|which|when|where|why|how)"
_WHO: Final = r"(?:[A-Z][\w'’-]*(?:[ ][A-Z][\w'’-]*){0,2}|(?:my|our|the)[ ]\w+|[iI]|we|he|she|they)"
_BEGINS: Final = rf"(?:{_ASKED}(?:['’]s)?|if|whether|everything|anything|is|are|was|were|do|does|did|has|have)\b"
# As people type: "u" and the like stand for whole words.
_SHORTHAND: Final[Mapping[str, str]] = {
    "pls": "please", "plz": "please", "u": "you", "ur": "your", "wk": "week", "wkend": "weekend",
    "yest": "yesterday", "tmrw": "tomorrow", "tmr": "tomorrow", "tonite": "tonight", "thx": "thanks",
    "abt": "about", "whats": "what's", "wheres": "where's", "whos": "who's", "hows": "how's", "whens": "when's",
    "bday": "birthday", "appt": "appointment", "dont": "don't", "didnt": "didn't",
}  # fmt: skip
_TYPED: Final = re.compile(rf"\b(?:{'|'.join(_SHORTHAND)})\b")
# What leads to the question itself, after a reason for asking: "I'm filling in a form, so could you tell me where".
_LEADING: Final = re.compile(
    rf"""(?:
      (?:(?:can|could|would|will)\ you\ (?:please\ |just\ |kindly\ |maybe\ |possibly\ )*)
        (?:(?:tell|remind|show)\ (?:me|us)|go\ over|check)
      |if\ you\ could\ (?:please\ |kindly\ )?(?:tell|remind)\ (?:me|us)
      |would\ you\ mind\ (?:telling|reminding)\ (?:me|us)
      |(?:i|we)(?:['’]d|\ would)\ like\ to\ (?:know|be\ sure)|(?:i|we)\ (?:need|want|have)\ to\ (?:know|check)
      |any\ (?:chance|idea)(?:\ (?:that\ )?you\ (?:know|remember))?|(?:help\ me\ out|just\ checking)
      )[,:]?\ +(?={_BEGINS})
    |(?:[:;]|,\ so\b)\ +(?={_ASKED}\b)
    |(?:help\ me\ out|just\ checking)[,:]\ +""",
    re.VERBOSE | re.IGNORECASE,
)
# A question with such a word may need what stands before it, and one with a single telling word that is no time.
_REFERS: Final = re.compile(
    r"\b(?:it|its|they|them|their|she|her|he|him|his|that(?=\W*$)|those|these|there|one)\b", re.IGNORECASE
)
_TIMED: Final = re.compile(
    r"""\b(?:today|tonight|tomorrow|yesterday|week|weekend|month|year|(?:mon|tues|wednes|thurs|fri|satur|sun)day
       |january|february|march|april|may|june|july|august|september|october|november|december)\b""",
    re.VERBOSE | re.IGNORECASE,
)
# "Spare key who", "Gaspard lives where".
_ASKED_LAST: Final = re.compile(
    r"^(?P<rest>[^?,.;:!]{2,60}?),? (?P<asked>who|where|when|what time|which day|how much|how many)\W*$",
    re.IGNORECASE,
)
_WITH_A_VERB: Final = re.compile(
    rf"^(?:{_ASKED}|is|are|was|were|do|does|did|has|have|can|could|will|tell|if)\b", re.IGNORECASE
)
# "Anneke Genoa trip what did she say".
_NAME_THEN_WHAT: Final = re.compile(
    r"^(?P<who>[A-Z][\w-]*) (?P<rest>[^?,.;:!]+?),? what (?:did|does|has) (?:he|she|they) (?:say|said|write)\W*$"
)
_KIN: Final = r"wife|husband|sister|brother|mother|father|boss|daughter|son|partner|dog|cat|mum|dad"
_NAME_AND_WORDS: Final = re.compile(
    rf"""^(?P<who>[A-Z][\w-]*(?:\ [A-Z][\w-]*)?)\ (?P<kin>(?:(?:{_KIN})\ )?)
        (?P<what>(?:phone\ |telephone\ |mobile\ )?number|(?:home\ )?address|e-?mail|birthday|age
          |(?:first\ |last\ )?name|surname|job|shoe\ size|{_KIN})\W*$""",
    re.VERBOSE,
)
# Each leads to what is asked for, and is left out where that follows.
_LEADS: Final = re.compile(
    rf"""^\W*(?:
      (?:hi|hey|hello|ok|okay|well|right|alright|um|erm|oh|sorry|by\ the\ way|btw
        |(?:a\ |one\ )?(?:quick\ |small\ )?question)[,:–-]+\ *(?=\w)
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
_WHAT_IT_WAS: Final = re.compile(
    rf"\b([Ww]hat|[Ww]ho|[Ww]here|[Ww]hen) (?:(?:was|is) it|it (?:was|is)) (?:that )?"
    rf"(?=(?:{_WHO}|[Ii]['’]ve|[Ww]e['’]ve) )"
)
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
    """The question in its plain form; as it is where there is none, and so is a text of several lines.

    So is one of more than 400 characters.
    """
    if len(text) > _READ_CHARS or "\n" in text.strip():
        return text
    plain = _TYPED.sub(lambda found: _SHORTHAND[found[0]], text)
    plain = _WHAT_IT_WAS.sub(r"\1 ", plain)
    plain = _without_reason(_without_ends(_without_leads(plain)))
    plain = _CONTRACTED.sub(lambda found: f"{found[1]} {_FULL[found[2].lower()]}", plain)
    for pattern, put in _REWRITES:
        plain = pattern.sub(put, plain)
    return _with_topic(plain)


def _without_reason(text: str) -> str:
    """The question itself, without the reason for asking, where it can do without what stands before it."""
    if _WITH_A_VERB.match(text):  # it begins with a question
        return text
    for found in reversed([*_LEADING.finditer(text)]):
        asked = text[found.end() :]
        telling = content_words(asked)
        if "?" in text[: found.start()] or _REFERS.search(asked):
            continue
        if len(telling) > 1 or (telling and _TIMED.search(asked)):
            return asked
    return text


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


def _asked_last(found: re.Match[str]) -> str:
    return found[0] if _WITH_A_VERB.match(found["rest"]) else f"{found['asked']} {found['rest']}?"


def _asked_of_name(found: re.Match[str]) -> str:
    kin = f"{found['kin'].strip()}'s " if found["kin"] else ""
    return f"what is {found['who']}'s {kin}{found['what']}?"


def _asked_of_message(found: re.Match[str]) -> str:
    return f"what did {found['who']} write {found['rest']}"


_REWRITES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (_WAS_SAYING, _asked_of_saying),
    (_SOMETHING, _asked_of_something),
    (_ABOUT_WHAT, _asked_of_something),
    (_MESSAGE_SAID, _asked_of_message),
    (_NAME_THEN_WHAT, r"what did \g<who> say about \g<rest>?"),
    (_ASKED_LAST, _asked_last),
    (_NAME_AND_WORDS, _asked_of_name),
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
