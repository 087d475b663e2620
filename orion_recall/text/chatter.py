"""Chatter in texts: greetings, thanks, acknowledgements, laughter, weather and small questions. English first.

A rule calls a text chatter only when every word of it is known to say nothing. A word that is not on a list, a
figure, a time or a name may be what somebody will look for, so a text with one is not chatter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final

from orion_recall.text.answers import gives_number, tells_time
from orion_recall.text.normal import STOP_WORDS, words

_LONGEST_CHARS: Final = 200
_LONGEST_QUESTION: Final = 9
"""Words of a small question."""

# What makes a text chatter: at least one of its words, or a phrase below, is one of these.
_EMPTY: Final = frozenset(
    """ok okay okey okie k kk yes yep yeah yup yay aye nope nah sure cool great perfect nice awesome amazing
    fantastic wonderful brilliant excellent lovely super gorgeous beautiful sweet wow whoa ooh oh ah aha ahh aww
    aw ouch oops oof ugh hm hmm hmmm mm mmm phew pff brr yikes gosh gee damn darn jeez argh boo bravo hooray
    hurray yippee hi hello hey heya hiya howdy morning evening goodnight night greetings bye goodbye byebye ciao
    cheers thanks thx ty tysm thankyou congrats congratulations lol lmao rofl ha heh hehe hihi haha hahaha
    hilarious funny sorry apologies pleasure welcome absolutely exactly totally indeed definitely certainly
    agreed true right correct seriously really noted understood roger whatever meh enjoy hugs xoxo xx xxx kisses
    typical unbelievable incredible crazy hallelujah bonjour bonsoir salut merci oui hallo danke bitte ja nein hola
    gracias grazie prego si sim obrigado obrigada""".split()
)
_LAUGHTER: Final = re.compile(r"\b(?:a?(?:ha){2,}h?|(?:he){2,}|(?:hi){2,}|lo+l)\b")

# What may stand beside it, and says nothing alone.
_LIGHT: Final = frozenset(
    """actually already always anybody anyone anything anyway awful bad best better big bit busy care chance come
    comes coming course day days dear deal definitely else enough especially even ever every everybody everyone
    everything fair fine folks friend friends fun glad go goes going gonna good gotta guess guy guys happen
    happens happy hard hear heard help helpful helps hope hopefully huge idea impressive impressed interesting
    isn't joke joking jealous keep kidding kind know knows kudos later least less let's like little look looks
    lot lots love lucky make makes man mate maybe mean means mind moment nobody nothing often one ones part
    people perhaps person please point possible pretty probably problem proud question questions quick quite
    ready sad say says see seems shame silly smile somebody someone something soon sort sound sounds stop
    strange stuff style surprise sweetie sweetheart honey darling buddy pal tell terrible thank thing things
    think thought time together tough true try understand wait way weird well wish won't wonder work works worry
    worse worst worth yet yourself ya yo y'all u ur ain't can't couldn't didn't doesn't hadn't hasn't haven't
    wouldn't shouldn't wasn't weren't aren't there's he'd he'll he's she'd she'll she's it'll they'll they've
    you'll you've you'd who's how's where's why's when's ll""".split()
)
_WEATHER: Final = frozenset(
    """weather rain raining rains rained rainy pouring drizzle drizzling snow snowing snowed snowy sun sunny
    sunshine wind windy breeze breezy storm stormy thunder lightning fog foggy mist misty cloud clouds cloudy
    grey gray sky hot cold warm cool chilly freezing frosty icy humid muggy damp wet dry mild heat heatwave
    scorching boiling melting sweltering sticky umbrella degrees spring summer autumn winter""".split()
)
_WITH_WEATHER: Final = frozenset(
    "today outside tonight morning afternoon evening day night long finally week all out there season".split()
)
# With one of these a text wants or prefers something, whatever it is about.
_WANTING: Final = frozenset("hate hates like likes love loves need needs please prefer prefers want wants".split())

# Phrases of which the words alone may be worth keeping: taken out first, each counts as an empty word.
_PHRASES: Final = re.compile(
    r"""\b(?:
      good\s(?:morning|afternoon|evening|night|day|luck|one|for\s(?:you|him|her|them))
      |(?:have|had)\s(?:a|an|yourself\sa)\s(?:\w+ly\s)?(?:good|nice|great|lovely|wonderful|fantastic|safe|restful|fun)
        \s(?:day|weekend|evening|night|afternoon|morning|week|time|one|trip|flight|rest|holiday)
      |(?:many|a\smillion|a\sthousand)\sthanks|thanks\sa\s(?:lot|million|bunch|ton)
      |thank(?:s|\syou)(?:\s(?:so|very)(?:\svery)?\smuch)?(?:\sagain)?
        \sfor\s(?:(?:the|your|all\s(?:the|your)|this|that|all|a)\s)?(?:(?:kind|quick|great|good|lovely)\s)?
        (?:help|info|information|heads[- ]up|update|invite|reminder|tip|tips|reply|patience|support|feedback|message
          |words|wishes|asking|listening|sharing|explaining|everything|nothing|advice|answer|reply|ride|lift|call)
      |thank\s(?:you(?:\s(?:so|very)(?:\svery)?\smuch)?|god|goodness|heavens)
      |you(?:'re|\sare)\s(?:very\s|most\s)?welcome|you\s(?:too|never\sknow|bet|wish|rock)
      |(?:no|not\sa)\s(?:problem|worries|way|need|idea|comment|rush)|don't\s(?:worry|mention\sit)
      |(?:sounds|looks|seems)\s(?:good|great|nice|lovely|fun|perfect|fine|like\sa\splan)
      |me\s(?:too|neither)|same\shere|of\scourse|by\sall\smeans|why\snot|who\sknows|never\smind|oh\swell|fair\senough
      |well\s(?:done|said|played)|nicely\sdone|great\s(?:job|work|news)|good\s(?:job|work|news|point|idea|question)
      |fingers\scrossed|poor\s(?:you|thing|soul)|what\sa\s(?:pity|shame|surprise|mess|day|week|relief|lovely\sday)
      |that(?:'s|\sis)\s(?:awful|terrible|sad|too\sbad|a\sshame|a\spity|tough|rough|hilarious|insane|wild)
      |so\s(?:happy|glad|sorry|proud|excited|jealous)\s(?:for|of|about)\s(?:you|that|this|it)
      |(?:glad|happy|good|nice|great|sorry|lovely)\sto\s(?:hear|help|know|see)(?:\s(?:it|that|this|you|from\syou))?
      |see\s(?:you|ya)(?:\s(?:soon|later|around|there|then))?|talk\s(?:to\syou\s)?(?:soon|later)|take\scare
      |catch\syou\slater|until\snext\stime|so\slong|sweet\sdreams|sleep\s(?:well|tight)|safe\s(?:travels|trip|journey)
      |night\snight|bon\s(?:voyage|appetit)|get\swell\ssoon|love\syou|miss\s(?:you|u)(?:\stoo)?|big\shug
      |i\s(?:see|know\sright|know|guess|agree|understand|hear\syou|get\sit)|got\s(?:it|you)|loud\sand\sclear|and\sso\son|aye\saye|my\s(?:pleasure|bad)
      |let\sme\s(?:know|think|see)|anything\selse|are\syou\s(?:there|kidding|serious|joking|sure|still\s(?:there|awake))
      |how\s(?:are\s(?:you|things)(?:\stoday)?|do\syou\sdo|is\sit\sgoing|was\syour\s(?:day|weekend|night|week|evening|trip|flight))
      |how's\s(?:it\sgoing|life|everything|things)|what's\s(?:up|new|that)|what\sdo\syou\sthink|shall\swe
      |really\sappreciate(?:\s(?:it|that|this))?|much\sappreciated|appreciate\s(?:it|that)|i\sappreciate\s(?:it|that)
      |tell\sme\sabout\sit|can't\swait|so\sfunny|too\sfunny|made\smy\sday|made\sme\slaugh|you\smade\sme\ssmile
      |happy\s(?:monday|tuesday|wednesday|thursday|friday|weekend)
    )\b""",
    re.VERBOSE,
)
_MARK: Final = "ok"
# Praise and sympathy: what is praised was told before, by somebody else.
_REACTION: Final = re.compile(
    r"""(?:(?:ok|and|so|but|oh|yes)\s)*(?:
      (?:that|this|it|those|these|they)(?:\s(?:all|both))?\s?(?:'s|is|are|was|were|sounds?|looks?|must|'re)\b
      |what\san?\b|how\b|so\b|such\san?\b|sounds\b|looks\b|you(?:'re|\sare|\sdid|\smust|'ve|\shave|\slook)\b
      |i(?:'m|\sam)\s(?:so|really|very|super)\b|i\sbet\b|must\b|nothing\sbeats\b|great\b|nice\b|lovely\b|keep\b
    ).*""",
    re.VERBOSE,
)
_PRAISE: Final = frozenset(
    """great awesome amazing fantastic wonderful brilliant excellent lovely gorgeous beautiful sweet incredible cool
    nice super impressive inspiring adorable cute delicious yummy stunning fabulous terrific perfect angel star hero
    legend genius treasure lifesaver champion best funny hilarious happy glad proud excited thrilled fun exciting
    sorry tough rough shame pity""".split()
)
_TELLS_OF_ITSELF: Final = frozenset(
    "i've i'll i'd my mine me we we're we'd we'll we've us our ours myself ourselves am".split()
)
_LONGEST_REACTION: Final = 14

_FIRST_PERSON: Final = frozenset(
    "i i'm i'd i'll i've me my mine myself we we're we'd we'll we've us our ours ourselves".split()
)
_SMALL: Final = re.compile(r"(?:did|do|does|have|has|are|is|was|were)\s(?:you|it|that|this|there|he|she|they)\b")
_ASKS_FOR: Final = re.compile(r"(?:can|could|would|will|may|might|should)\s|please\b")

_SENTENCES: Final = re.compile(r"[^.!?…\n]+[.!?…]*")
_NAME: Final = re.compile(r"(?<=\s)[^\W\d_a-z][\w'’-]*")
_OPENS_TO_SOMEBODY: Final = re.compile(
    r"(?:hi|hello|hey|hiya|dear|good|morning|evening|thanks|thank|many thanks|congrats|congratulations|well done"
    r"|cheers|how|bravo|bonjour|hallo|danke|hola|ciao|merci|sleep|take care)\b",
    re.IGNORECASE,
)
_ADDRESSED: Final = re.compile(
    r",?\s+(?:[Dd]ear\s+)?[A-ZÀ-Þ][\w'’-]*(?:(?:\s+and\s+|\s+)[A-ZÀ-Þ][\w'’-]*)?(?=\s*(?:,|$))"
)
_FIGURE: Final = re.compile("[0-9]")
_APOSTROPHE: Final = str.maketrans("’", "'")


def is_chatter(text: str) -> bool:
    """Whether the text says nothing that anybody would look for later.

    Never for a text with a figure, a time, or a name other than the one that is greeted or thanked.
    """
    if len(text) > _LONGEST_CHARS or _has_figure(text):
        return False
    sentences = [part.strip() for part in _SENTENCES.findall(text.translate(_APOSTROPHE)) if words(part)]
    if not sentences:
        return bool(text.strip())  # emoji and punctuation alone
    found = False
    for sentence in sentences:
        kind = _kind(sentence)
        if kind is None:
            return False
        found = found or kind
    return found


def _has_figure(text: str) -> bool:
    if text.isascii():
        return _FIGURE.search(text) is not None
    return any(character.isdigit() for character in text)


def _kind(sentence: str) -> bool | None:
    """True for a sentence of chatter, False for one of light words only, None for one that may say something."""
    said = sentence.rstrip(".!?… ")
    if _OPENS_TO_SOMEBODY.match(said):
        said = _ADDRESSED.sub("", said, count=1)
    if _names_somebody(said):
        return None
    folded = " ".join(words(said))
    said_words = folded.split()
    if _is_weather(said_words):
        return True
    rest = _LAUGHTER.sub(_MARK, _PHRASES.sub(_MARK, folded))
    left = rest.split()
    if tells_time(rest) or gives_number(rest.replace(" one", "").replace("one ", "")):
        return None
    content = [word for word in left if word not in _EMPTY and word not in _LIGHT and word not in STOP_WORDS]
    if not content:
        return not _EMPTY.isdisjoint(left) or (sentence.endswith("?") and _is_small_question(folded, said_words, 0))
    if sentence.endswith("?"):
        return True if _is_small_question(folded, said_words, len(content)) else None
    return True if _is_reaction(said, rest, left, len(content)) else None


def _names_somebody(sentence: str) -> bool:
    """Whether a word inside the sentence has a capital letter, but for "I" and words of a greeting."""
    for match in _NAME.finditer(sentence):
        word = match[0].casefold()
        if word not in _FIRST_PERSON and word not in _EMPTY and not word.isupper():
            return True
    return False


def _is_weather(said: Sequence[str]) -> bool:
    """Whether weather is all that the words are about."""
    if _WEATHER.isdisjoint(said) or not _WANTING.isdisjoint(said):
        return False
    known: Sequence[Set[str]] = (_WEATHER, _WITH_WEATHER, _EMPTY, _LIGHT, STOP_WORDS)
    return all(any(word in some for some in known) for word in said)


def _is_reaction(sentence: str, folded: str, said: Sequence[str], content: int) -> bool:
    """Whether a sentence praises or pities what somebody else has told, and tells nothing of who says it."""
    if len(said) > _LONGEST_REACTION or content > 2 or _PRAISE.isdisjoint(said):
        return False
    if not _TELLS_OF_ITSELF.isdisjoint(said) or _REACTION.fullmatch(folded) is None:
        return False
    return all(_is_praise(words(part)) for part in sentence.split(","))


def _is_praise(said: Sequence[str]) -> bool:
    """Whether a part of a sentence praises or pities, or has no word that says anything."""
    known: Sequence[Set[str]] = (_EMPTY, _LIGHT, STOP_WORDS)
    return not _PRAISE.isdisjoint(said) or all(any(word in some for some in known) for word in said)


def _is_small_question(folded: str, said: Sequence[str], content: int) -> bool:
    """Whether a question is short, names next to nothing, and neither tells of its asker nor asks for a favour."""
    if len(said) > _LONGEST_QUESTION or not _FIRST_PERSON.isdisjoint(said) or _ASKS_FOR.match(folded):
        return False
    return content <= (2 if _SMALL.match(folded) else 1)
