"""Small talk: greetings, thanks, praise and farewells to the service, which ask nothing of memory.

A text is small talk when every part of it, between its signs, is a phrase of the lists below, with or without a
name that it is said to. "Thanks, and when is the meeting?" has a part that is none, so it is a question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain, product
from typing import Final, Literal

from orion_recall.text.normal import words

SmallTalk = Literal["greeting", "thanks", "farewell", "acknowledgement", "small_talk"]

_MOST_CHARS = 200
# Phrases by kind, between bars or lines. What is in brackets may be left out; of words with slashes any stands.
# They are compared in full: "it is", not "it's".
_PHRASES: Final[Mapping[SmallTalk, str]] = {
    "greeting": """
        hi | hello | hey | hiya | howdy | yo | greetings
        (a) (very) good morning/afternoon/evening/day/night | morning | afternoon | evening | welcome (back)
        happy new year | happy birthday/easter/holidays/weekend | merry christmas
        nice/good/lovely/great to see/meet/have you (again/back) | long time no see | i am back
        (it is) (very/so) nice/good/lovely/great to see/meet/have/hear you (again/back)
        (it is) nice/good to be speaking/talking with/to you (again)
        i hope all/everything is well/good/fine (with you) | i hope you are (doing) well
        it is me (again) | guten morgen/tag/abend | hallo | servus | moin | grüß gott | bonjour | bonsoir
        salut | hola | buenos días | buenas tardes/noches | ciao | buongiorno | buonasera | olá
        goedemorgen | hej | namaste""",
    "thanks": """
        thanks | thank you | thx | ty | many thanks | thanks so/very much | thank you so/very much
        thanks a lot/million/bunch | thanks again/anyway/both/all | thank you again/anyway/both/all
        thank you kindly | much appreciated | i (really) appreciate it/that/this
        i am (very/so/really) grateful | cheers | big thanks | a thousand thanks
        (this is) so/very kind (of you) | that was/is (so/very/really) kind (of you) | danke
        danke schön/sehr | vielen dank | merci | merci beaucoup | gracias | muchas gracias | grazie
        grazie mille | obrigado | obrigada | dank je | tack | tak""",
    "farewell": """
        bye | goodbye | good bye | bye bye | bye for now | see you | see ya
        see you soon/later/tomorrow/then/around | see you next week/time | talk (to you) soon/later
        speak (to you) soon/later | so long | take care | farewell
        have a nice/good/great/lovely day/evening/night/weekend/one/time/trip | sleep well/tight
        night night | nighty night | bye then | (i am) off to bed (now) | (i am) going to bed (now)
        sweet dreams | until/till tomorrow/later/then/next time | catch you later | i am off
        that is all (for now/today) | that is it (for now/today) | that will be all | tschüss
        auf wiedersehen | au revoir | adiós | arrivederci""",
    "acknowledgement": """
        ok | okay | okey | k | alright | all right | right | sure | sure thing | fine | yes | yeah | yep
        yup | no | nope | nah | got it | understood | noted | i see | i understand | makes sense
        that makes sense | sounds good | deal | of course | exactly | indeed | agreed | true | fair enough
        good to know | will do | roger | no problem | no worries | never mind | nevermind | you are welcome
        my pleasure | not at all | don't worry | don't mention it | great | perfect | awesome | nice | good
        excellent | brilliant | wonderful | lovely | super | fantastic | cool | amazing | marvellous | neat
        well done | good/great/nice work/job/one | very good/nice/helpful | how nice | oh | ah | wow | haha
        hahaha | hehe | lol | hm | hmm | ups | oops | sorry | my bad | amen
        that/this/it was/is (very/really/so/super/just/all/quite) helpful/great/perfect/useful/nice/good
        that/this/it was/is (just/all/quite) right/fine/awesome/it
        that/this helped/helps (me) (a lot/much) | exactly what i needed/wanted/meant
        just what i needed/wanted | you helped me (a lot)
        you are (so/very/the) great/amazing/awesome/best/wonderful/helpful""",
    "small_talk": """
        how are you (doing) (today/now/tonight) | how are things | how is it going | how do you do
        (is) everything/all alright/okay/ok/good/well/fine (with you/there/today)
        (is) everything all right (with you/there/today)
        what is up | sup | are you there | anybody/anyone there | can you hear me | do you hear me
        i am fine/good/great/well | and you | how about you | just testing/chatting | test | testing
        this is a test | i love you | i am bored""",
}
# Whom it is said to, before or after a phrase.
_TO: Final = frozenset(
    """there all everyone everybody both guys folks team friend friends mate buddy dear assistant bot again my old
    ladies gentlemen sir madam world so and then now oh well please to you too today""".split()
)
_SHORT: Final = re.compile(r"['’](s|m|re)\b", re.IGNORECASE)
_FULL: Final = {"s": "is", "m": "am", "re": "are"}
_PARTS: Final = re.compile(r"[.,;:!?…¡¿()\"“”\n–—]+|\s-+\s")
# After them a name may follow that is not known: "Hello Ana". After "great" it would be a title.
_SAID_TO: Final[Collection[SmallTalk]] = ("greeting", "thanks", "farewell")
_MOST_FOR = 9
_ASKING: Final = frozenset("what when where who whom whose which why how".split())


def _read(lines: str) -> Collection[tuple[str, ...]]:
    """Every phrase that the lines stand for, in words."""
    phrases: set[tuple[str, ...]] = set()
    for text in re.split(r"[|\n]", lines):
        places: list[list[tuple[str, ...]]] = []
        for optional, plain in re.findall(r"\(([^)]*)\)|(\S+)", text):
            if plain:
                places.append([(word,) for word in plain.split("/")])
            else:
                places.append([(), *product(*(words_there.split("/") for words_there in optional.split()))])
        phrases.update(phrase for choice in product(*places) if (phrase := tuple(chain.from_iterable(choice))))
    return phrases


_KINDS: Final[Mapping[tuple[str, ...], SmallTalk]] = {
    phrase: kind for kind, lines in reversed(_PHRASES.items()) for phrase in _read(lines)
}
_LONGEST: Final = max(map(len, _KINDS))


def small_talk(text: str, names: Collection[str] = ()) -> SmallTalk | None:
    """The kind of small talk, by its first phrase; None when a part is something else. `names` are folded words."""
    if len(text) > _MOST_CHARS:
        return None
    kinds: list[SmallTalk] = []
    unknown = False
    for part in _PARTS.split(_SHORT.sub(lambda short: f" {_FULL.get(short[1].lower(), short[1])}", text)):
        said = words(part)
        if (found := _kind_of(said, part, names)) is not None:
            kinds.append(found)
        elif not all(word in names or word in _TO for word in said):
            if len(said) > 1 or not part.strip()[:1].isupper():
                return None
            unknown = True
    if not kinds or (unknown and kinds[0] not in _SAID_TO):
        return None
    return kinds[0]


def _kind_of(said: Sequence[str], part: str, names: Collection[str]) -> SmallTalk | None:
    """The kind of the part's first phrase, where nothing is left but phrases and whom they are said to."""
    kind, place = None, 0
    while place < len(said):
        phrases = (tuple(said[place : place + length]) for length in range(_LONGEST, 0, -1))
        if phrase := next((one for one in phrases if one in _KINDS), None):
            kind = kind or _KINDS[phrase]
            place += len(phrase)
        elif kind == "thanks" and said[place] == "for" and len(said) - place <= _MOST_FOR:
            # What the thanks are for: "for the quick help".
            return None if not _ASKING.isdisjoint(said[place:]) else kind
        elif said[place] in _TO or said[place] in names:
            place += 1
        elif kind in _SAID_TO and place == len(said) - 1 and part.split()[-1][:1].isupper():
            return kind
        else:
            return None
    return kind


def is_chatter(text: str) -> bool:
    """Whether the text is small talk, and so nothing that anybody looks for. It comes last in a recap."""
    return small_talk(text) is not None
