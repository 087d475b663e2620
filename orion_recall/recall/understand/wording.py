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

from orion_recall.text.normal import content_words, words
from orion_recall.when.direction import is_past_form
from orion_recall.when.vocabulary import TRIGGERS

_READ_CHARS: Final = 400
_ASKED: Final = r"(?:what|who|whom|whose|which|when|where|why|how)"
_NAME: Final = r"[A-Z][\w'’-]*(?:[ ][A-Z][\w'’-]*){0,2}"
_WHO: Final = rf"(?:{_NAME}|(?:my|our|the)[ ]\w+|[iI]|we|he|she|they)"
_BEGINS: Final = rf"(?:{_ASKED}(?:['’]s)?|if|whether|everything|anything|is|are|was|were|do|does|did|has|have)\b"
# As people type. Within an address, a path or a word with a hyphen it is something else.
_SHORTHAND: Final[Mapping[str, str]] = {
    "pls": "please", "wk": "week", "wkend": "weekend", "yest": "yesterday", "tmrw": "tomorrow", "tmr": "tomorrow",
    "tonite": "tonight", "thx": "thanks", "abt": "about", "whats": "what's", "wheres": "where's", "whos": "who's",
    "hows": "how's", "whens": "when's", "bday": "birthday", "appt": "appointment", "did u": "did you",
    "do u": "do you", "can u": "can you", "could u": "could you", "are u": "are you",
}  # fmt: skip
_TYPED: Final = re.compile(rf"(?<!\S)(?:{'|'.join(_SHORTHAND)})(?=$|[\s?!,;]|\.(?:\s|$))")
# What leads to the question itself, after a reason for asking: "I'm filling in a form, so could you tell me where".
_LEADING: Final = re.compile(
    rf"""(?:
      (?:(?:can|could|would|will)\ you\ (?:please\ |just\ |kindly\ |maybe\ |possibly\ )*)
        (?:(?:tell|remind|show)\ (?:me|us)|go\ over|check)
      |if\ you\ could\ (?:please\ |kindly\ )?(?:tell|remind)\ (?:me|us)
      |would\ you\ mind\ (?:telling|reminding)\ (?:me|us)
      |(?:^|[.,;:]\ |\band\ )(?:i|we)?
        (?:(?:['’]d|\ ?would)\ like\ to\ (?:know|be\ sure)|\ ?(?:need|want|have)\ to\ (?:know|check))
      |any\ (?:chance|idea)(?:\ (?:that\ )?you\ (?:know|remember))?|(?:help\ me\ out|just\ checking)
      )[,:]?\ +(?={_BEGINS})
    |\b(?:asked\ (?:me|us)\b[^:;]{{0,60}}|asks\ for\ (?:it|that)|be\ sure|check\ first|before\ i\ [^:;]{{3,40}})
      :\ +(?={_ASKED}\b)
    |(?:help\ me\ out|just\ checking)[,:]\ +""",
    re.VERBOSE | re.IGNORECASE,
)
# A question with such a word may need what stands before it, and one with a single telling word that is no time.
_REFERS: Final = re.compile(
    r"\b(?:it|its|they|them|their|she|her|he|him|his|that(?=\W*$)|those|these|there|one)\b", re.IGNORECASE
)
# "Spare key who", "Gaspard lives where"; not "Doctor Who", "I forgot where", "until when".
_ASKED_LAST: Final = re.compile(
    r"^(?P<rest>[^?,.;:!]{2,40}?),? (?P<asked>who|where|when|what time|which day|how much)(?=\W*$)"
)
_NO_NOUNS: Final = frozenset(
    """i we you he she they it nobody somebody someone everybody let and but or if should shall am may is are was
    were do does did has have had can could will would must tell tells told know knows forgot forget wonder wonders
    remember remembers say says said ask asks asked sure guess until till by at from since to for with of in on
    about the a not no what who when where why how""".split()
)
_WITH_A_VERB: Final = re.compile(
    rf"^(?:{_ASKED}|is|are|was|were|do|does|did|has|have|can|could|will|tell|if)\b", re.IGNORECASE
)
_KIN: Final = r"wife|husband|sister|brother|mother|father|boss|daughter|son|partner"
_NAME_AND_WORDS: Final = re.compile(
    rf"""^(?P<who>[A-Z][\w-]*(?:\ [A-Z][\w-]*)?)\ (?:(?P<kin>{_KIN})\ )?
        (?P<what>(?:phone|telephone|mobile)\ number|home\ address|birthday|shoe\ size|(?:first|last)\ name|surname
          |(?(kin)name|(?!))|{_KIN})\W*$""",
    re.VERBOSE,
)
_NO_NAMES: Final = _NO_NOUNS | frozenset(
    "my our your his her their its whose this that new old happy dear call hi hello hey ring text any every".split()
)
# Each leads to what is asked for, and is left out where that follows.
_LEADS: Final = re.compile(
    rf"""^\W*(?:
      (?:hi|hey|hello|ok|okay|well|right|alright|um|erm|oh|sorry|by\ the\ way|btw
        |(?:a\ |one\ )?(?:quick\ |small\ )?question)[,:–-]+\ *(?=\w)
      |(?:so|and|please|erm),?\ +(?={_BEGINS}|(?:tell|remind|can|could|would)\b)
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
    r"""(?:(?<!\bspell)(?<!\bsay)(?<!\bword)[\s,;–-]+please|\s+(?:would|will)\ you
          |\s*[,;–-]+\s*(?:thanks|thank\ you|ta|cheers|mate|i\ mean|i\ wonder|do\ you\ know|any\ idea
            |(?:could|can)\ you|(?:remind|tell)\ me)
        )(?P<sign>\W*)$""",
    re.VERBOSE | re.IGNORECASE,
)
_CONTRACTED: Final = re.compile(
    rf"\b({_ASKED})['’](ve|re|ll|d(?=[ ](?:i|you|we|he|she|they)[ ](?!(?:like|rather|love|prefer|be|better)\b)))\b",
    re.IGNORECASE,
)
_FULL: Final[Mapping[str, str]] = {"ve": "have", "d": "did", "re": "are", "ll": "will"}
# "What was it Salma told me", "what was it that I bought"; not "when is it Christmas in Russia".
_WHAT_IT_WAS: Final = re.compile(
    rf"\b([Ww]hat|[Ww]ho|[Ww]here|[Ww]hen) (?:(?:was|is) it|it (?:was|is)) (?:that )?"
    rf"(?=(?:{_NAME}|[iI]|we|he|she|they|[Ii]['’]ve|[Ww]e['’]ve) (?!(?:in|on|at|of|for|to|with|is|was)\b)\w)"
)
_SAYING: Final[Mapping[str, str]] = {
    "saying": "say", "telling": "tell", "writing": "write", "mentioning": "mention",
}  # fmt: skip
_WAS_SAYING: Final = re.compile(
    rf"^[Ww]hat (?:(?:was|were|has|have) )?(?P<who>{_WHO}) (?:(?:was|has|had) )?(?:been )?"
    rf"(?P<verb>{'|'.join(_SAYING)})\b"
)
_TOLD: Final[Mapping[str, str]] = {
    "said": "say", "told": "tell", "asked": "ask", "wrote": "write", "mentioned": "mention",
    "wanted to know": "ask", "has written": "write", "has said": "say", "has told": "tell",
}  # fmt: skip
_HAS_TOLD: Final = "|".join(re.escape(one) for one in _TOLD)
# "Florence asked me something today, what was it".
_SOMETHING: Final = re.compile(
    rf"""^(?!Hey|Hi\b|Hello|Dear|Ok)(?P<who>{_WHO})\ (?P<verb>{_HAS_TOLD})(?P<whom>\ (?:me|us))?
        \ something(?:\ (?:to|from|of)\ (?:me|us))?(?P<rest>|\ (?:about|on|today|yesterday|last|this)\b.*?)[,;.–-]*
        \ +what\ (?:was|is)\ (?:it|that)\W*$""",
    re.VERBOSE,
)
# "Inês has written about her farewell, what does she say".
_ABOUT_WHAT: Final = re.compile(
    rf"""^(?P<who>{_WHO})\ (?P<verb>{_HAS_TOLD})(?P<whom>\ (?:me|us))?
        \ (?P<rest>(?:about|of|on)\b.*?)[,;.–-]*
        \ +what\ (?:does|did)\ (?:he|she|they|it)\ (?:say|write|tell\ \w+)\W*$""",
    re.VERBOSE,
)
# "What Ana's message about the ferry said".
_MESSAGE_SAID: Final = re.compile(
    rf"""^[Ww]hat\ (?P<who>{_WHO})['’]s\ (?:last\ |latest\ )?(?:message|mail|email|note|text|letter)
        (?P<rest>|\ about\ .*?)\ (?:said|says)(?=\W*$)""",
    re.VERBOSE,
)
# "My spare key, who has it?", "Ana's boss, what's her name?", "Carla, who's she?".
_TOPIC_FIRST: Final = re.compile(
    rf"""^(?P<topic>(?:[Mm]y|[Oo]ur|[Tt]he|[Tt]his|[Tt]hat)(?:[ ][\w'’-]+){{1,6}}
        |[A-Z][\w-]*(?:[ ][A-Z][\w-]*)?['’]s(?:[ ][\w'’-]+){{1,4}}|{_NAME})
        [ ]?[,–-]+[ ]+(?P<asked>{_ASKED}\b.*)$""",
    re.VERBOSE,
)
_ABOUT_FIRST: Final = re.compile(
    rf"^((?:about|regarding|concerning) [^,;:!?]{{2,60}}), +({_ASKED}\b.*?\b(?:say|tell me|tell us|write))(\W*)$",
    re.IGNORECASE,
)
# The ways in which a topic that stands first is meant again.
_IS_THIS_ONE: Final = re.compile(
    r"^(who|what|where|which one)(['’]s| is| are) (?:it|they|she|he|that)(?=\W*$)", re.IGNORECASE
)
_WHOSE: Final = re.compile(
    r"^(what(?:['’]s| is)) (?:her|his|their|its) "
    r"((?:phone )?number|(?:first |last )?name|address|birthday|job|age|e-?mail)(?=\W*$)",
    re.IGNORECASE,
)
_THIS_ONE: Final = re.compile(r"\b(?:it|them|they|that(?=\W*$))\b(?!['’])", re.IGNORECASE)
_OTHERS: Final = re.compile(
    r"\b(?:she|her|he|him|his|its|their)\b|\b(?:when|if|as|because|make|time is) it\b|\bit (?:rain|snow|is)",
    re.IGNORECASE,
)
_NO_TOPIC: Final = frozenset(
    """is are was were am be been has have had do does did will would can could day evening morning night time week
    month year said bad""".split()
)


def plainly(text: str) -> str:
    """The question in its plain form. A text of several lines, or of more than 400 characters, stays as it is."""
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
        if len(telling) > 1 or (telling and not TRIGGERS.isdisjoint(words(asked))):
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
    said = f"what did {found['who']} {_TOLD[found['verb']]}{found['whom'] or ''} {found['rest'].strip()}"
    return f"{said.rstrip()}?"


def _asked_of_message(found: re.Match[str]) -> str:
    return f"what did {found['who']} write{found['rest']}"


def _asked_last(found: re.Match[str]) -> str:
    rest = found["rest"].casefold().split()
    return found[0] if not _NO_NOUNS.isdisjoint(rest) else f"{found['asked']} {found['rest']}"


def _asked_of_name(found: re.Match[str]) -> str:
    if found["who"].casefold().split()[0] in _NO_NAMES:
        return found[0]
    kin = f"{found['kin']}'s " if found["kin"] else ""
    return f"what is {found['who']}'s {kin}{found['what']}?"


_REWRITES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (_WAS_SAYING, _asked_of_saying),
    (_SOMETHING, _asked_of_something),
    (_ABOUT_WHAT, _asked_of_something),
    (_MESSAGE_SAID, _asked_of_message),
    (_ASKED_LAST, _asked_last),
    (_NAME_AND_WORDS, _asked_of_name),
)


def _with_topic(text: str) -> str:
    """The question with what stands before it in the place of its pronoun."""
    if about := _ABOUT_FIRST.match(text):
        return f"{about[2]} {about[1][0].lower()}{about[1][1:]}{about[3]}"
    if (found := _TOPIC_FIRST.match(text)) is None:
        return text
    topic, asked = found["topic"], found["asked"]
    said = words(topic)
    if not _NO_TOPIC.isdisjoint(said) or any(is_past_form(word) for word in said):
        return text  # a clause, or a time
    if is_it := _IS_THIS_ONE.match(asked):
        is_clear = len(said) > 1 or is_it[1].casefold() == "who"  # not "Now, where is he?"
        return f"{is_it[1]}{is_it[2]} {topic}{asked[is_it.end() :]}" if is_clear else text
    if whose := _WHOSE.match(asked):
        return f"{whose[1]} {topic}'s {whose[2]}{asked[whose.end() :]}"
    meant = [*_THIS_ONE.finditer(asked)]
    if len(said) == 1 or len(meant) != 1 or _OTHERS.search(asked):
        return text
    return asked[: meant[0].start()] + topic + asked[meant[0].end() :]
