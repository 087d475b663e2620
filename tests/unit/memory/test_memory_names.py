from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from orion_recall.memory.names.merges import NamesUsed, propose


class Letters:
    """Vectors of pairs of letters: near when the spelling is. Names of `far` are near nothing."""

    name, dimension, weights_sha256 = "letters", 256, "b" * 64

    def __init__(self, far: Sequence[str] = ()) -> None:
        self.far = far
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return (await self.embed_documents([text]))[0]

    async def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            if text in self.far:
                vectors[row, 255 - self.far.index(text)] = 1
                continue
            for one, other in zip(text.casefold(), text.casefold()[1:], strict=False):
                vectors[row, (ord(one) * 7 + ord(other)) % 200] += 1
            vectors[row, 200] += 0.1
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def used(*memories: Sequence[str]) -> NamesUsed:
    names = NamesUsed()
    for number, said in enumerate(memories):
        names.add(f"m{number}", said)
    return names


async def proposed(
    names: NamesUsed, embedder: Letters | None = None, min_cosine: float = 0.6
) -> list[tuple[str, str]]:
    found = await propose(names, embedder or Letters(), tenant="t", kind="entity", min_cosine=min_cosine)
    return [(one.alias, one.into) for one in found]


async def test_the_name_that_more_memories_give_stays_then_the_longer_then_the_first() -> None:
    assert await proposed(used(["Jon Smith"], ["Jon Smith"], ["John Smith"])) == [("John Smith", "Jon Smith")]
    assert await proposed(used(["Jon Smith"], ["John Smith"])) == [("Jon Smith", "John Smith")]
    assert await proposed(used(["Jon Smitt"], ["Jon Smith"])) == [("Jon Smitt", "Jon Smith")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("R. Miles", "Robert Miles"),
        ("Miles, Robert", "Robert Miles"),
        ("Ana Silva", "Dr. Ana Silva"),
        ("Fjord-Labs", "Fjord Labs"),
        ("Jon Smith", "John Smith"),
    ],
)
async def test_names_that_are_spelt_alike_are_proposed(one: str, other: str) -> None:
    assert set((await proposed(used([one], [other]), min_cosine=0.0))[0]) == {one, other}


@pytest.mark.parametrize(
    "memories", [(["Jon Smith", "John Smith"],), (["Pier Seven A7"], ["Pier Seven A8"]), (["Oslo"], ["Bergen"])]
)
async def test_names_of_one_memory_or_with_other_numbers_are_two(memories: tuple[list[str], ...]) -> None:
    assert await proposed(used(*memories)) == []


async def test_both_thresholds_count_and_only_what_is_spelt_alike_is_embedded() -> None:
    far = Letters(["Jon Smith"])
    assert await proposed(used(["Jon Smith"], ["John Smith"], ["Oslo"]), far) == []
    assert far.asked == ["John Smith", "Jon Smith"]
