"""Roles of speakers: which speakers are assistants.

A person who talks to an assistant is who the memories are about; the assistant mostly repeats what it was told, at
more length. English first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from orion_recall.text.normal import words

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
    if speaker.strip() in _AI:
        return True
    said = frozenset(words(speaker))
    if not _ASSISTANT_WORDS.isdisjoint(said):
        return True
    return not _WITH_OTHERS.isdisjoint(said) and said <= _WITH_OTHERS | _OTHERS


def is_assistant(speaker: str | None, *, agent_id: str | None = None, role: object = None) -> bool:
    """Whether an assistant says it: by the message's role, because the speaker is its agent, or by name.

    A role other than the assistant's wins over the name.
    """
    if isinstance(role, str) and role.strip():
        return role.strip().casefold() == ASSISTANT
    if speaker and agent_id and speaker.casefold() == agent_id.casefold():
        return True
    return names_assistant(speaker)
