"""The extractors `llm` and `spacy`, those of other packages, and the opening of the one that the settings name.

A package adds one by an entry point of the group `orion_recall.extractors` that leads to an `ExtractorSpec` of its
name.

The spaCy library is optional, and imported when it is chosen.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orion_recall.errors import SettingsError, install_hint
from orion_recall.foreground import FOREGROUND
from orion_recall.memory.extraction.light import (
    Extraction,
    Extractor,
    LightExtractor,
    Passage,
    choose_entities,
    light,
    spelt,
    usable_name,
    usable_names,
)
from orion_recall.memory.extraction.llm import MAX_STATEMENTS, LlmExtractor, usable_relation
from orion_recall.memory.extraction.sentences import NEVER_NAMES, squeezed
from orion_recall.models.server import ChatServer
from orion_recall.packages import Loaded, PackageSettings, Registry, problem_of_name
from orion_recall.settings import BUILT_IN_EXTRACTORS, Settings
from orion_recall.tasks import outcomes, report
from orion_recall.text.normal import one_line
from orion_recall.values import Statement

log = logging.getLogger("orion_recall.memory")

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
    if not isinstance(loaded, BaseException):
        return loaded
    if isinstance(loaded, SettingsError):
        raise loaded
    # A pipeline's own code may raise whatever it likes while it is loaded.
    why = f"{type(loaded).__name__}: {one_line(str(loaded))[:300]}"
    raise SettingsError(f"ORION_SPACY_MODEL: {name!r} cannot be loaded ({why})") from loaded


def _load(name: str) -> Any:
    try:
        spacy = importlib.import_module("spacy")
    except ImportError as error:
        hint = install_hint("spacy")
        raise SettingsError(f"ORION_EXTRACTOR=spacy needs the library ({error}): {hint}") from error
    try:
        return spacy.load(name)
    except OSError as error:
        raise SettingsError(
            f"ORION_SPACY_MODEL: {name!r} is neither installed nor a pipeline's folder: "
            f"python -m spacy download {name} (or pip install the wheel that holds it)"
        ) from error


class SpacyExtractor:
    """Names by the pipeline's entities, statements by its dependencies where it has a parser."""

    name, at_once, batch, longest_s = "spacy", 1, 32, 300.0

    def __init__(self, pipeline: Any) -> None:
        self._pipeline = pipeline

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        found: list[Extraction] = []
        for passage in passages:
            (result,) = await outcomes("a spaCy pipeline failed", asyncio.to_thread(self._one, passage))
            if isinstance(result, Exception):
                # Components raise whatever they like; one text costs only itself.
                why = f"{self.name}: the pipeline failed with {type(result).__name__}"
                result = await asyncio.to_thread(light, passage, why)
            found.append(result)
        return found

    def _one(self, passage: Passage) -> Extraction:
        FOREGROUND.yield_to_foreground()
        document = self._pipeline(passage.text[:_MAX_CHARS])
        names = usable_names(_name(span) for span in document.ents if span.label_ not in _NO_NAMES)
        names = [name for name in names if name.casefold() not in NEVER_NAMES]
        found = light(replace(passage, known=(*passage.known, *names)))
        voice = usable_name(passage.speaker)
        # A name of several words that the pipeline has found stands for the parts of it that the rules have found.
        parts = {word for name in names if " " in name for word in name.casefold().split()}
        parts -= {name.casefold() for name in names}
        others = (name for name in found.entities if name.casefold() not in parts)
        entities = choose_entities([*names, *others], voice)
        told = {(edge.subject, edge.object) for edge in found.statements}
        more = _statements(document, {name.casefold(): name for name in found.entities}, voice)
        # What the rules have a word for is not said twice.
        stated = [*found.statements, *(edge for edge in more if (edge.subject, edge.object) not in told)]
        return replace(found, entities=entities, statements=spelt(stated, entities, MAX_STATEMENTS), by=self.name)


def _name(span: Any) -> str:
    name = squeezed(span.text).removesuffix("'s").removesuffix("’s")
    first, _, rest = name.partition(" ")
    return rest if rest and first.casefold() in ("the", "a", "an") else name


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
        unsure = any(child.dep_ in _UNSURE and child.lower_ in _UNSURE_WORDS for child in verb.children)
        if verb.pos_ not in ("VERB", "AUX") or unsure or verb.sent.text.rstrip().endswith("?"):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractorSpec:
    """An extractor of another package. `open` opens it for a worker: an async context manager, which closes it."""

    name: str
    open: Callable[[PackageSettings], contextlib.AbstractAsyncContextManager[Extractor]]


def _problem(one: Loaded) -> str | None:
    if not isinstance(one.value, ExtractorSpec):
        return f"it leads to a {type(one.value).__name__}, not to an ExtractorSpec"
    return problem_of_name(one, one.value.name, "extractor")


FURTHER_EXTRACTORS = Registry("orion_recall.extractors", _problem, lambda: BUILT_IN_EXTRACTORS)
_MOST_AT_ONCE, _MOST_BATCH, _LONGEST_S = 64, 256, 3600.0


class FurtherExtractor:
    """What an extractor of another package says: names and statements, made to fit; times are light extraction's.

    A batch in which it fails, takes too long or gives anything but an `Extraction` for each passage has light
    extraction, with the reason as its note.
    """

    def __init__(self, name: str, extractor: Extractor) -> None:
        self.name, self._extractor = name, extractor
        self.at_once = min(max(int(extractor.at_once), 1), _MOST_AT_ONCE)
        self.batch = min(max(int(extractor.batch), 1), _MOST_BATCH)
        self.longest_s = min(max(float(extractor.longest_s), 1.0), _LONGEST_S)

    async def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        (found,) = await outcomes(f"the extractor {self.name} of another package failed", self._asked(passages))
        if isinstance(found, Exception):
            why = f"{self.name}: it failed with {type(found).__name__}"
            return await asyncio.to_thread(lambda: [light(passage, why) for passage in passages])
        return found

    async def _asked(self, passages: Sequence[Passage]) -> list[Extraction]:
        async with asyncio.timeout(self.longest_s):
            said = list(await self._extractor.extract(passages))
        if len(said) != len(passages):
            raise ValueError(f"{len(said)} results for {len(passages)} passages")
        return await asyncio.to_thread(lambda: list(map(self._fitted, said, passages)))

    def _fitted(self, said: Extraction, passage: Passage) -> Extraction:
        entities = choose_entities(usable_names([*said.entities, *passage.known]), usable_name(passage.speaker))
        stated = [edge for edge in said.statements if usable_relation(edge.relation) == edge.relation]
        return replace(
            light(passage),
            entities=entities,
            statements=spelt(stated, entities, MAX_STATEMENTS),
            by=self.name,
            lacks_context=bool(said.lacks_context),
        )


@contextlib.asynccontextmanager
async def _further(settings: Settings) -> AsyncGenerator[FurtherExtractor]:
    """The extractor of another package that the settings name. SettingsError where it cannot be opened."""
    name = settings.extractor
    spec = next((one.value for one in FURTHER_EXTRACTORS.used if one.name == name), None)
    if spec is None:
        why = next((str(one) for one in FURTHER_EXTRACTORS.refused if one.name == name), "no package adds it")
        raise SettingsError(f"ORION_EXTRACTOR={name}: {why}")
    package = FURTHER_EXTRACTORS.package_of(name)
    async with contextlib.AsyncExitStack() as stack:
        try:
            extractor = FurtherExtractor(name, await stack.enter_async_context(spec.open(settings)))
        except SettingsError as error:
            raise SettingsError(f"ORION_EXTRACTOR={name} of the package {package}: {error}") from error
        except Exception as error:
            # Its text is not meant to be shown: it may have an address with its password.
            report(f"the extractor {name} of the package {package} cannot be opened", error)
            why = f"it cannot be opened ({type(error).__name__}): the log has where"
            raise SettingsError(f"ORION_EXTRACTOR={name} of the package {package}: {why}") from error
        yield extractor


@contextlib.asynccontextmanager
async def open_extractors(settings: Settings) -> AsyncGenerator[tuple[Extractor, ...]]:
    """Light extraction, and the one that is chosen, ready; closed at the end of the block."""
    if settings.extractor != "llm":
        for name, value in (("ORION_LLM_URL", settings.llm_url), ("ORION_LLM_MODEL", settings.llm_model)):
            if value is not None:
                log.warning("%s is set and not used: only ORION_EXTRACTOR=llm reads it", name)
    if settings.extractor == "spacy":
        yield LightExtractor(), SpacyExtractor(await load_pipeline(settings.spacy_model))
    elif settings.extractor == "llm":
        if not settings.llm_url or not settings.llm_model:
            missing = "ORION_LLM_MODEL" if settings.llm_url else "ORION_LLM_URL"
            raise SettingsError(f"{missing} is not set, and ORION_EXTRACTOR=llm needs it")
        key = settings.llm_api_key.get_secret_value() if settings.llm_api_key else None
        timeout_s, at_once = settings.llm_timeout_s, settings.llm_concurrency
        server = ChatServer(settings.llm_url, settings.llm_model, key, timeout_s=timeout_s, connections=at_once)
        try:
            yield LightExtractor(), LlmExtractor(server, at_once=at_once)
        finally:
            await server.close()
    elif settings.extractor == "light":
        yield (LightExtractor(),)
    else:
        async with _further(settings) as extractor:
            yield LightExtractor(), extractor
