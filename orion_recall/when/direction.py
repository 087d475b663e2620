"""Direction of a time in a statement: the nearest verb says whether it is over or lies ahead.

Of verbs of arranging ("booked", "moved") a time before the verb is when that was done, one after it is arranged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

Direction = Literal["past", "ahead"]

_VERBS: Final = frozenset(
    """need needs want wants plan plans hope hopes expect expects intend intends have has do does start
    starts begin begins end ends open opens close closes arrive arrives come comes leave leaves go goes meet
    meets fly flies drive drives travel travels take takes run runs return returns move moves get gets give
    gives play plays sing sings visit visits bring brings pick picks wait waits expire expires renew renews
    launch launches ship ships deliver delivers pay pays owe owes send sends call calls join joins finish
    finishes publish publishes hand hands turn turns celebrate celebrates marry marries stay stays rehearse
    rehearses train trains reopen reopens resume resumes happen happens continue continues host hosts attend
    attends see sees work works teach teaches speak speaks present presents last lasts land lands help helps
    cook cooks paint paints build builds show shows make makes""".split()
)
_AHEAD: Final = _VERBS | frozenset(
    """will shall won't shan't gonna i'll we'll you'll he'll she'll they'll it'll who'll there'll that'll
    i'd we'd you'd he'd she'd they'd am is are i'm we're you're he's she's it's they're that's there's
    here's who's what's isn't aren't ain't can can't could must should may might would ought be being due
    overdue let's please remember remind don't doesn't deadline haven't hasn't ready""".split()
)
_PAST: Final = frozenset(
    """was were wasn't weren't did didn't had hadn't been couldn't became began bit blew broke brought built
    burnt bought caught chose clung came crept dealt dug did drew dreamt drank drove ate fell fed felt
    fought found fled flew forbade forgot forgave froze got gave went grew hung heard hid hit held hurt kept
    knelt knew laid led leant learnt left lent lay lit lost made meant met mowed paid proved quit rode rang
    rose ran said saw sought sold sent sewed shook shone shot showed shrank sang sank sat slept slid spoke
    sped spent spilt spun split spoilt spread sprang stood stole stuck stung struck strode swore swept
    swelled swam swung took taught tore told thought threw trod understood woke wore wove wept won wound
    withdrew wrote overslept overtook undertook gone done seen taken given written broken spoken eaten fallen driven
    flown grown known thrown woken worn stolen""".split()
)
# What they are about lies ahead of them, whatever stands before the time: "booked a table on Friday".
_ARRANGED: Final = frozenset(
    """booked scheduled rescheduled postponed planned arranged rearranged reserved fixed delayed pushed
    shifted promised agreed confirmed invited enrolled appointed proposed suggested""".split()
)
# The same after "for", "to", "until" or "by" alone: "moved to Friday", but "moved to Lyon in March".
_PERHAPS_ARRANGED: Final = frozenset(
    """moved set changed got put brought bought told asked said wrote called signed registered announced
    extended wanted offered ordered decided reminded messaged emailed texted rang phoned applied accepted""".split()
)
_ARRANGING: Final = frozenset(("for", "to", "until", "till", "by"))
_DETERMINERS: Final = frozenset("the a an my our your his her its their this that each every no any some".split())
_WITH_INFINITIVE: Final = frozenset("did didn't couldn't didnt".split())
_NO_PAST: Final = frozenset(
    """need bed red shed speed feed seed deed weed indeed hundred sacred naked wicked wretched exceed
    proceed succeed embed breed bleed greed creed sled led wed reed heed biped moped kindred tired married
    excited interested worried supposed united used ted fred ned med ed jed reed ahmed mohammed""".split()
)
_MODALS: Final = ("should", "could", "would", "must", "might", "may")
_BE: Final = frozenset(
    """am is are be being i'm we're you're he's she's it's they're that's there's isn't aren't get gets
    getting needs need""".split()
)
_HAVE: Final = frozenset("have has haven't hasn't i've we've you've they've he's she's it's having".split())
# Beyond these another statement begins.
_BORDERS: Final = frozenset("so but because while although though whereas unless then ; . ! ? –".split())
_WEAK: Final = frozenset((",", "and", "or", "-", "which", "who", "that", "when", "where", "if", "before", "after"))
# A weak border counts as so many words; a verb after the time is a little further off than one before it.
_WEAK_COST, _AFTER_COST = 3.0, 1.5
_READ_BACK: Final = 40


_Sort = Literal["past", "ahead", "arranged", "perhaps"]


def direction(words: Sequence[str], first: int, after: int) -> Direction | None:
    """What the clause of the words from `first` up to `after` tells of; None where no verb near them says."""
    lead = words[first - 2] if first > 1 and words[first - 1] == "the" else words[first - 1] if first else ""
    best: tuple[float, Direction | None] = math.inf, None
    before, behind = range(first - 1, max(-1, first - _READ_BACK), -1), range(after, len(words))[:_READ_BACK]
    for places, cost in ((before, 0.0), (behind, _AFTER_COST)):
        for place in places:
            if words[place] in _BORDERS or cost >= best[0]:
                break
            cost += _WEAK_COST if words[place] in _WEAK else 1.0
            if (sort := _sort(words, place)) is None:
                continue
            is_arranged = sort == "arranged" or (sort == "perhaps" and lead in _ARRANGING)
            is_ahead = sort == "ahead" or (is_arranged and place < first)
            if cost < best[0]:
                best = cost, "ahead" if is_ahead else "past"
            break
    return best[1]


def _sort(words: Sequence[str], place: int) -> _Sort | None:
    """What the word says of time as a verb; None of other words."""
    word = words[place]
    before = words[max(0, place - 3) : place]
    last = before[-1] if before else ""
    following = words[place + 1] if place + 1 < len(words) else ""
    if word in _HAVE and following in ("been", "got"):
        return "past" if following == "been" else "ahead"
    if word == "have" and last in _MODALS:
        return "past"  # "should have come"
    if word in ("going", "about") and following == "to":
        return "ahead"
    if word == "used" and following == "to" and last not in _BE:
        return "past"
    if is_past_form(word):
        if last == "as":
            return None  # "as agreed"
        if (word == "got" and last in _HAVE) or (word != "been" and not _BE.isdisjoint(before)):
            return "ahead"  # "is planned for", "will be closed on"
        return "arranged" if word in _ARRANGED else "perhaps" if word in _PERHAPS_ARRANGED else "past"
    if word not in _VERBS:
        return "ahead" if word in _AHEAD else None
    # Of "the call on Monday" and "went to see" another word says when.
    if last == "have":
        return None
    is_infinitive = last == "to" or not _WITH_INFINITIVE.isdisjoint(before)
    if last in _DETERMINERS or (is_infinitive and word != "have"):
        return "past" if before[-2:] == ["used", "to"] else None
    return "ahead"


def is_past_form(word: str) -> bool:
    """Whether a folded word is a verb's past form, or its participle."""
    if word in _PAST or word in _ARRANGED or word in _PERHAPS_ARRANGED:
        return True
    return len(word) > 3 and word.endswith("ed") and word not in _NO_PAST
