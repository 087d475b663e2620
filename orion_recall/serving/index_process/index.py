"""The embedded index of a worker in a process of its own: the methods of `EdgeIndex`, each a call to that process.

The engine holds Python's lock while it searches and writes: in the worker's process all else would wait meanwhile.
What was read last and the speakers are kept here, as `EdgeIndex` keeps them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from orion_recall.errors import AnotherRecordsCopy
from orion_recall.index.caches import FormerSpeaker, KeptViews, SpeakerCache, speaker_scope
from orion_recall.index.embedded.folders import build_place, is_complete, metadata_if_known
from orion_recall.index.embedded.index import TITLES
from orion_recall.index.embedded.shard import ADVICE
from orion_recall.index.engine_threads import to_the_end
from orion_recall.index.metadata import IndexMetadata, refuse_another
from orion_recall.index.passages import OF
from orion_recall.index.write_batch import keys_of
from orion_recall.models.embedder import Embedder
from orion_recall.models.sparse import SparseEncoder, SparseTerms
from orion_recall.models.token_space import Tokens, TokenVectors
from orion_recall.serving.index_process.link import PROGRAM, IndexLink
from orion_recall.serving.index_process.messages import (
    DenseSearch,
    Opening,
    Packed,
    QuestionEmbedder,
    Target,
)
from orion_recall.settings import Settings
from orion_recall.text.passages import FIRST_PASSAGES
from orion_recall.time_values import TimedKey
from orion_recall.values import Change, MemoryView, Scope


class _CopyOfProcess:
    """A copy that a child process holds: the index in use or a build."""

    kind = "index"
    shared = False
    damage: str | None = None
    stalled: str | None = None
    copy: str | None = None

    def __init__(self, link: IndexLink, target: Target, folder: Path) -> None:
        self.folder = folder
        self._link = link
        self._target: Target = target
        self._expected: str | None = None

    @property
    def metadata(self) -> IndexMetadata | None:
        return self._link.state(self._target).metadata

    @property
    def position(self) -> int:
        return self.metadata.position if self.metadata is not None else 0

    @property
    def database_identity(self) -> str | None:
        return (self.metadata.record or None) if self.metadata is not None else None

    async def check(self) -> None:
        self._refuse_another()

    def _refuse_another(self) -> None:
        if (found := self.database_identity) != self._expected:
            refuse_another(f"the index in {self.folder}", found, self._expected, advice=ADVICE)


class BuildOfProcess(_CopyOfProcess):
    """A complete build of the index, held by the same process until it is swapped in."""

    def expect(self, identity: str) -> None:
        self._expected = identity

    async def open(self) -> None:
        await self._link.call(self._target, "open")
        if self._expected is not None:
            await self._link.call(self._target, "expect", self._expected)
        await self.check()

    async def close(self) -> None:
        await self._link.call(self._target, "close")

    async def apply(self, changes: Sequence[Change]) -> None:
        await to_the_end(self._link.call(self._target, "apply", changes))

    async def held(self) -> Mapping[int, int]:
        return await self._link.call(self._target, "held")

    async def remove(self, keys: Sequence[int]) -> None:
        await to_the_end(self._link.call(self._target, "remove", keys))


class IndexProcess(_CopyOfProcess):
    """The embedded index in use, held by a child process."""

    def __init__(
        self, settings: Settings, embedder: Embedder, sparse: SparseEncoder, *, program: str = PROGRAM
    ) -> None:
        self.embedder, self.sparse = embedder, sparse
        self.questions: Embedder = embedder
        """Embeds questions: in the process, where it gives vectors of tokens as well, which a server does not."""
        self._views, self._speakers = KeptViews(), SpeakerCache()
        self._why_no_tokens: tuple[str | None, str | None] = None, None
        link = IndexLink(lambda: Opening(settings, sparse.weights, self._expected), self._forget, program=program)
        super().__init__(link, "live", settings.data_dir / "index")
        # An embedding server may be away, and then not even its name is known: nothing else of it is looked at.
        if isinstance(embedder, TokenVectors):
            self.questions = QuestionEmbedder(embedder, link.ask_question)

    @property
    def pid(self) -> int | None:
        return self._link.pid

    async def open(self) -> None:
        """Starts the process, which locks the folder and loads the shard or creates it.

        Errors as those of `EdgeIndex.open`; after AnotherRecordsCopy it is open and refuses reads.
        """
        try:
            await self._link.open()
        except AnotherRecordsCopy:  # it is open and refuses reads
            raise
        except BaseException:  # a cancellation, too: the process would hold the folder
            await self._link.close()
            raise

    async def close(self) -> None:
        await self._link.close()

    def expect(self, identity: str) -> None:
        self._expected = identity

    async def adopt(self) -> None:
        if self._expected is not None:
            await self._link.call("live", "expect", self._expected)
            await self._link.call("live", "adopt")

    async def search_dense(
        self, vector: Sequence[float], scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]]:
        return await self._read("search_dense", vector, scope, limit, min_score)

    async def search_text(
        self, text: str, scope: Scope, limit: int, min_score: float
    ) -> list[tuple[int, float]] | None:
        """As `search_dense` by the vector of a question's text, in the call that embeds it.

        None where nothing was searched: by another embedder, or of a text that was embedded before.
        """
        if not isinstance(self.questions, QuestionEmbedder):
            return None
        self._check()
        return await self.questions.searched(text, DenseSearch(scope, limit, min_score))

    async def search_sparse(
        self, terms: SparseTerms, scope: Scope, limit: int, *, using: Sequence[str] = ("text", "context")
    ) -> list[list[tuple[int, float]]]:
        if not terms.indices:
            return [[] for _ in using]
        found = await self._read("search_sparse", terms, scope, limit, using=using)
        return [one.pairs() for one in found]

    async def nearest_passages(
        self, vector: Sequence[float], tenant: str, keys: Sequence[int]
    ) -> Mapping[int, int]:
        self._check()
        if not self._has(OF) or not (keys := self._views.may_have_passages(keys)):
            return {}
        return await self._read("nearest_passages", vector, tenant, keys)

    async def without_tokens(self) -> str | None:
        self._check()
        asked_of, why = self._why_no_tokens
        tokens = self.metadata.tokens if self.metadata is not None else None
        if tokens is None or asked_of != tokens:
            why = await self._read("without_tokens")
            self._why_no_tokens = tokens, why
        return why

    async def max_sim(
        self, tokens: Tokens, keys: Sequence[int], passages: Mapping[int, int] = FIRST_PASSAGES
    ) -> Mapping[int, float]:
        of_these = {key: passages[key] for key in keys if key in passages}
        found: Packed = await self._read("max_sim", tokens, keys, of_these)
        return dict(found.pairs())

    async def find_entities(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        return await self._read("find_entities", text, tenant, limit)

    async def names_sharing_words(self, text: str, tenant: str, limit: int) -> Sequence[tuple[str, ...]]:
        return await self._read("names_sharing_words", text, tenant, limit)

    async def names_near(self, vector: Sequence[float], tenant: str, limit: int) -> Sequence[tuple[str, float]]:
        return await self._read("names_near", vector, tenant, limit)

    async def titled(self, names: Sequence[str], scope: Scope, limit: int) -> Mapping[int, Sequence[str]]:
        return await self._read("titled", names, scope, limit)

    async def has_titles(self, tenant: str) -> bool:
        """Whether any memory has a title, of whatever tenant."""
        self._check()
        return self._has(TITLES)

    async def in_time_order(
        self, scope: Scope, limit: int, *, newest_first: bool = False, without_sessions: Sequence[str] = ()
    ) -> Sequence[TimedKey]:
        order = {"newest_first": newest_first, "without_sessions": without_sessions}
        return await self._read("in_time_order", scope, limit, **order)

    async def fetch(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        if not keys:
            return {}
        self._check()
        return await self._views.fetched(keys, self._fetched)

    async def speakers(self, scope: Scope) -> frozenset[str]:
        self._check()
        return await self._speakers.names(speaker_scope(scope), self._speakers_in)

    async def vectors(self, keys: Sequence[int]) -> Mapping[int, Sequence[float]]:
        return await self._read("vectors", keys)

    async def held(self) -> Mapping[int, int]:
        return await self._call("held")

    async def prepare(self, changes: Sequence[Change]) -> None:
        await self._call("prepare", changes)

    async def apply(self, changes: Sequence[Change]) -> None:
        if changes:
            await self._written("applied", keys_of(changes), changes)

    async def remove(self, keys: Sequence[int]) -> None:
        await self._written("removed", keys)

    async def compact(self) -> tuple[int, list[str]]:
        """Writes its files anew; of unused builds how many went, and which did not."""
        return await self._call("compact")

    def staged_rebuild(self) -> BuildOfProcess | None:
        if (mine := metadata_if_known(self.embedder, self.sparse)) is None or self.metadata is None:
            return None
        place = build_place(self.folder, mine)
        return BuildOfProcess(self._link, "build", place) if is_complete(place) else None

    async def swap_in(self, built: BuildOfProcess) -> None:
        self._check()
        await to_the_end(self._link.call("live", "swap_in"))
        self._forget()

    async def _written(self, method: str, keys: Sequence[int], changes: Sequence[Change] | None = None) -> None:
        # To the end, cancelled or not: until then what is read may be what was there before.
        with self._views.written(keys), self._speakers.written():
            former = await to_the_end(self._call(method, keys if changes is None else changes))
        self._speakers.note(changes or (), cast("frozenset[FormerSpeaker]", former))

    async def _read(self, method: str, *arguments: Any, **options: Any) -> Any:
        self._refuse_another()
        return await self._link.read(method, *arguments, **options)

    async def _call(self, method: str, *arguments: Any) -> Any:
        self._refuse_another()
        return await self._link.call("live", method, *arguments)

    async def _fetched(self, keys: Sequence[int]) -> Mapping[int, MemoryView]:
        return await self._link.read("fetch", keys)

    async def _speakers_in(self, scope: Scope, among: Collection[str] | None) -> frozenset[str]:
        return await self._link.read("speakers_in", scope, among)

    def _has(self, field: str) -> bool:
        return field in self._link.state("live").has

    def _forget(self) -> None:
        self._views.clear()
        self._speakers.clear()
        if isinstance(self.questions, QuestionEmbedder):
            self.questions.forget()

    def _check(self) -> None:
        """TransientSourceError while it cannot be asked, AnotherRecordsCopy when it is another database's."""
        self._link.check()
        self._refuse_another()
