"""Extraction by a spaCy pipeline. The library is optional, and imported when it is chosen."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from orion_recall.errors import SettingsError, install_hint
from orion_recall.foreground import FOREGROUND
from orion_recall.memory.extraction.light import Extraction, Passage, choose_entities, light, spelt, usable_names
from orion_recall.memory.extraction.sentences import NEVER_NAMES, squeezed
from orion_recall.tasks import outcomes
from orion_recall.text.normal import one_line
from orion_recall.values import Statement

log = logging.getLogger("orion_recall.memory")

MAX_STATEMENTS = 24
# The longest that is looked at: a pipeline's memory grows with the text.
_MAX_CHARS = 20_000
_NO_NAMES = frozenset(("DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"))
_SUBJECTS = frozenset(("nsubj", "nsubjpass", "nsubj:pass"))
_OBJECTS = frozenset(("dobj", "obj", "attr", "dative"))
_UNSURE = frozenset(("neg", "aux", "mark"))
_UNSURE_WORDS = frozenset("not n't never if whether unless would could might may should".split())


async def load_pipeline(name: str) -> Any:
    """The pipeline of that name or folder; SettingsError with the command that installs what is missing."""
    (loaded,) = await outcomes("a spaCy pipeline cannot be loaded", asyncio.to_thread(_load, name))
    if isinstance(loaded, Exception) and not isinstance(loaded, SettingsError):
        # A pipeline's own code may raise whatever it likes while it is loaded.
        why = f"{type(loaded).__name__}: {one_line(str(loaded))[:300]}"
        raise SettingsError(f"ORION_SPACY_MODEL: {name!r} cannot be loaded ({why})") from loaded
    if isinstance(loaded, BaseException):
        raise loaded
    return loaded


def _load(name: str) -> Any:
    try:
        spacy = importlib.import_module("spacy")
    except ImportError as error:
        why = f"ORION_EXTRACTOR=spacy needs the library ({error}): {install_hint('spacy')}"
        raise SettingsError(why) from error
    try:
        return spacy.load(name)
    except OSError as error:
        raise SettingsError(
            f"ORION_SPACY_MODEL: {name!r} is neither installed nor a pipeline's folder: "
            f"python -m spacy download {name} (or pip install the wheel that holds it)"
        ) from error


class SpacyExtractor:
    """Names by the pipeline's entities, statements by its dependencies where it has a parser."""

    name = "spacy"
    at_once = 1
    batch = 32
    longest_s = 300.0

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spacy")

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """What each passage says, in the order of the passages."""
        loop = asyncio.get_running_loop()
        jobs = [loop.run_in_executor(self._thread, self._one, passage) for passage in passages]
        found: list[Extraction] = []
        for passage, result in zip(passages, await outcomes("a spaCy pipeline failed", *jobs), strict=True):
            if isinstance(result, Exception):
                # Components raise whatever they like; one text costs only itself.
                why = f"the pipeline failed with {type(result).__name__}"
                found.append(await asyncio.to_thread(light, passage, f"{self.name}: {why}"))
            else:
                found.append(result)
        return found

    async def close(self) -> None:
        """Ends the thread after what it is running."""
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    def _one(self, passage: Passage) -> Extraction:
        FOREGROUND.yield_to_foreground()
        document = self._pipeline(passage.text[:_MAX_CHARS])
        names = usable_names(_name(span) for span in document.ents if span.label_ not in _NO_NAMES)
        names = [name for name in names if name.casefold() not in NEVER_NAMES]
        found = light(replace(passage, known=(*passage.known, *names)))
        voice = next(iter(usable_names([passage.speaker or ""])), None)
        # A name of several words that the pipeline has found stands for the parts of it that the rules have found.
        entities = choose_entities([*names, *_beside(found.entities, names)], voice)
        told = {(edge.subject, edge.object) for edge in found.statements}
        more = _statements(document, {name.casefold(): name for name in found.entities}, voice)
        # What the rules have a word for is not said twice.
        stated = [*found.statements, *(edge for edge in more if (edge.subject, edge.object) not in told)]
        return replace(found, entities=entities, statements=spelt(stated, entities, MAX_STATEMENTS), by=self.name)


def _name(span: Any) -> str:
    """An entity as a name: without an article before it or a possessive after it."""
    name = squeezed(span.text).removesuffix("'s").removesuffix("’s")
    first, _, rest = name.partition(" ")
    return rest if rest and first.casefold() in ("the", "a", "an") else name


def _beside(entities: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    parts = {word for name in names if " " in name for word in name.casefold().split()}
    whole = {name.casefold() for name in names}
    yield from (name for name in entities if name.casefold() in whole or name.casefold() not in parts)


def _statements(document: Any, others: Mapping[str, str], voice: str | None) -> Iterator[Statement]:
    """Subject, verb and object of each clause whose ends are names or the speaker; none without a parser."""
    if not document.has_annotation("DEP"):
        return
    named = {token.i: _name(span) for span in document.ents if span.label_ not in _NO_NAMES for token in span}

    def end(token: Any) -> str | None:
        if token.lower_ in ("i", "we"):
            return voice
        return named.get(token.i) or others.get(token.text.casefold())

    for verb in document:
        if verb.pos_ not in ("VERB", "AUX") or not _is_stated(verb):
            continue
        subjects = [name for child in verb.children if child.dep_ in _SUBJECTS and (name := end(child))]
        for relation, target in _objects(verb):
            if subjects and (name := end(target)):
                yield from (Statement(subject=one, relation=relation, object=name) for one in subjects)


def _objects(verb: Any) -> Iterator[tuple[str, Any]]:
    word = verb.lemma_.lower() or verb.lower_
    for child in verb.children:
        if child.dep_ in _OBJECTS:
            yield word, child
        elif child.dep_ in ("prep", "agent"):
            yield from ((f"{word} {child.lower_}", one) for one in child.children if one.dep_ == "pobj")


def _is_stated(verb: Any) -> bool:
    """Whether the clause says so: it is not denied, asked or only thought of."""
    unsure = any(child.dep_ in _UNSURE and child.lower_ in _UNSURE_WORDS for child in verb.children)
    return not unsure and not verb.sent.text.rstrip().endswith("?")
