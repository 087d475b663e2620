"""The answer policy: whether what was found may answer, what is withheld, and why.

Nothing is searched for where nothing is asked. What was found answers if the profile's minima are met: the
probability that anything answers, the confidence, the best score. A recap answers with whatever is of its time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from orion_recall.contracts import RecallQueryV1
from orion_recall.profile.cascade import NoAnswer
from orion_recall.recall.bundle.selection import Selection
from orion_recall.recall.candidates.said_by import nothing_was_said
from orion_recall.recall.confidence.answer import AnswerConfidence, Withheld, gate
from orion_recall.recall.confidence.answerable import answerable
from orion_recall.recall.pass_result import PassResult
from orion_recall.recall.search.period import is_of_period
from orion_recall.recall.understand.question import Understanding
from orion_recall.text.normal import words
from orion_recall.text.small_talk import small_talk

MIN_PROBABILITY = 0.12
"""The minimum of a query that wants one (`options.no_answer`) where the profile has none: that of shipped ones."""


def minima_of(least: NoAnswer, wanted: bool | None) -> NoAnswer:
    """The profile's minima, or what a query wants instead: False for none, True for some in any case."""
    if wanted is None:
        return least
    if not wanted:
        return NoAnswer()
    return least if least.is_on else least.model_copy(update={"min_probability": MIN_PROBABILITY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is handed over, its confidence, and why it is withheld, where it is."""

    selection: Selection
    confidence: AnswerConfidence
    withheld: Withheld | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPolicy:
    """The policy of a profile for one recall. `has_external`: hits may come from external stores."""

    least: NoAnswer
    has_external: bool

    def before_search(self, query: RecallQueryV1, understood: Understanding) -> Withheld | None:
        """Why nothing is searched for: a greeting or thanks asks nothing."""
        if not self.least.greetings or (query.intent and words(query.intent)):
            return None
        names = {word for name in understood.people for word in words(name)}
        if (kind := small_talk(query.fragment, names)) is None:
            return None
        return Withheld(reason=f"it is {kind} and asks nothing")

    def answer(
        self, selection: Selection, confidence: AnswerConfidence, understood: Understanding, result: PassResult
    ) -> Answer:
        """The answer that a selection is: as it stands, or empty with the reason."""
        withheld: Withheld | None = None
        if not is_of_period(
            understood
        ):  # else what is of the period answers, however little it resembles the words
            if not self.has_external:  # of an external store's hits hardly any signal is known
                confidence = replace(confidence, answerable=answerable(understood, result))
            selection, withheld = gate(selection, confidence, self.least)
        withheld = withheld or nothing_was_said(understood.said_by, result)
        return Answer(selection=selection, confidence=confidence, withheld=withheld)
