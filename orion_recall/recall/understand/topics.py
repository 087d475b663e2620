"""What a question asks for everything about: the heat pump of "What do we know about the heat pump?"

English, as data. "Know about" and "tell me" stand in memories of anything, so they are not searched for.
"""

from __future__ import annotations

import re

from orion_recall.text.normal import content_words

_WHO = "(?:we|you|i)"
_ABOUT = "(?:about|of)"
_SOME = "(?:something |anything |everything |more |all |what )?"
_FRAMES = (
    rf"what (?:else )?(?:do|did|can) {_WHO} (?:actually |already |still )?(?:know|remember|recall) {_ABOUT}",
    rf"what (?:do|did) {_WHO} have (?:(?:down|noted|stored|on file|on record) (?:about|on)|about)",
    r"what(?: is|'s|’s| was) (?:already )?(?:known|remembered|noted|stored) (?:about|of|on)",
    r"what(?: is|'s|’s) (?:new|up|the news|the latest|the story|going on) (?:about|of|on|with|from)",
    r"what(?: became| has become|'s become|’s become) of",
    r"what about",
    rf"(?:(?:can|could|would) you )?(?:please )?tell me {_SOME}(?:(?:that )?{_WHO} (?:know|remember) )?{_ABOUT}",
    rf"what can you tell me {_ABOUT}",
    rf"remind me {_ABOUT}",
    rf"(?:(?:is|are) there |do {_WHO} have |have {_WHO} )?any (?:news|updates?|information) (?:about|of|on|from)",
    rf"(?:is there |do {_WHO} (?:have|know) )?anything (?:new |known |else )*(?:about|of|from)",
    rf"(?:give me )?(?:everything|all)(?: that)?(?: {_WHO} (?:know|have|remember))? (?:about|on)",
    rf"summari[sz]e (?:what {_WHO} know about|everything about)",
)
_FRAME = re.compile(
    rf"^\W*(?:(?:so|and|ok|okay|please|hey|well|now),? )*(?:{'|'.join(_FRAMES)}) (?P<topic>.+)$", re.IGNORECASE
)
_EDGES = " \t\n.,;:!?\"'“”‘’()"


def topic_of(text: str) -> str | None:
    """What the question asks for everything about, as it is written; None where it asks for something of it."""
    found = _FRAME.match(text)
    topic = "" if found is None else found["topic"].strip(_EDGES)
    return topic if content_words(topic) else None
