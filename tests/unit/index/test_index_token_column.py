"""The column of token vectors: what is compared, what a crash leaves, what a copy leaves out."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orion_recall.errors import SourceError
from orion_recall.index.embedded.token_column import TokenColumn
from orion_recall.index.points import AS_HELD
from orion_recall.models.token_space import Tokens

WIDTH = 96


def unit_vectors(seed: int, count: int) -> Tokens:
    made = np.random.default_rng(seed).standard_normal((count, WIDTH)).astype(np.float32)
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


QUERY = (unit_vectors(0, 7) / 7).astype(np.float32)


def exact(tokens: Tokens) -> float:
    return float((QUERY @ tokens.T).max(axis=1).sum())


def scores(column: TokenColumn) -> dict[int, float]:
    return column.max_sim(QUERY, range(20))


def test_a_comparison_differs_by_less_than_a_thousandth_from_that_of_floats(tmp_path: Path) -> None:
    column = TokenColumn(tmp_path / "tokens", WIDTH)
    told = {key: unit_vectors(key, 1 + key % 30) for key in range(1, 200)}
    column.put({key: one.astype(np.float16) for key, one in told.items()})
    found = column.max_sim(QUERY, [*told, 1000])
    assert found.keys() == told.keys()
    assert max(abs(found[key] - exact(one)) for key, one in told.items()) < 1e-3


def test_points_without_tokens_and_those_held_stay_as_they_are(tmp_path: Path) -> None:
    column = TokenColumn(tmp_path / "tokens", WIDTH)
    column.put({1: unit_vectors(1, 3).tolist(), 2: None, 3: np.zeros((1, WIDTH), np.float16)})
    before = scores(column)
    column.put({1: AS_HELD, 2: AS_HELD})
    assert scores(column) == before
    assert before.keys() == {1, 3}
    assert before[3] == 0, "a text without words is near to nothing"


Write = tuple[str, dict[int, int] | list[int] | None]
WRITES: st.SearchStrategy[list[Write]] = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.dictionaries(st.integers(0, 19), st.integers(1, 50), max_size=4)),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 19), max_size=4)),
        st.tuples(st.just("save"), st.none()),
        st.tuples(st.just("copy"), st.none()),
    ),
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(writes=WRITES, torn=st.integers(0, 2000))
def test_after_a_crash_there_is_what_was_saved_without_points_written_later(
    tmp_path_factory: pytest.TempPathFactory, writes: list[Write], torn: int
) -> None:
    place = tmp_path_factory.mktemp("column")
    column = TokenColumn(place / "0", WIDTH)
    now: dict[int, Tokens] = {}
    saved: dict[int, Tokens] = {}
    for number, (what, of) in enumerate(writes, start=1):
        if what == "put" and isinstance(of, dict):
            given_now = {key: unit_vectors(seed, seed % 9 + 1) for key, seed in of.items()}
            column.put({key: one.astype(np.float16) for key, one in given_now.items()})
            now |= given_now
        elif what == "delete" and isinstance(of, list):
            column.delete(of)
            now = {key: one for key, one in now.items() if key not in of}
        elif what == "save":
            column.save()
            saved = dict(now)
        elif what == "copy":
            former, column = column, column.copied(place / str(number))
            former.close()
            saved = dict(now)
        assert scores(column) == pytest.approx({key: exact(one) for key, one in now.items()}, abs=1e-3)
    crashed = place / "crashed"
    shutil.copytree(column.folder, crashed)
    rows = crashed / "rows"
    kept = 24 * (1 + int(np.frombuffer(rows.read_bytes()[:24], np.uint64)[2]))
    rows.write_bytes(rows.read_bytes()[: kept + torn])  # of what was not saved a part may be there
    tail = rows.read_bytes()[kept:]
    unsaved = {int(key) for key in np.frombuffer(tail[: len(tail) // 24 * 24], np.uint64)[::3]}
    left = pytest.approx({key: exact(one) for key, one in saved.items() if key not in unsaved}, abs=1e-3)
    assert scores(TokenColumn(crashed)) == left
    again = TokenColumn(crashed)  # after another crash, with nothing saved in between
    assert scores(again) == left
    again.put({19: unit_vectors(5, 4).astype(np.float16)})
    again.save()
    assert scores(TokenColumn(crashed))[19] == pytest.approx(exact(unit_vectors(5, 4)), abs=1e-3)


def test_a_copy_has_no_bytes_of_what_was_deleted(tmp_path: Path) -> None:
    column = TokenColumn(tmp_path / "tokens", WIDTH)
    column.put({key: unit_vectors(key, 40).astype(np.float16) for key in range(10)})
    column.save()
    gone = (tmp_path / "tokens" / "vectors").read_bytes()[:2000]
    column.delete([0])
    copy = column.copied(tmp_path / "copy")
    assert scores(copy) == scores(column)
    copy.close()
    assert gone in (tmp_path / "tokens" / "vectors").read_bytes()
    assert gone not in (tmp_path / "copy" / "vectors").read_bytes()


def test_who_compares_while_the_file_grows_sees_what_was_there(tmp_path: Path) -> None:
    column = TokenColumn(tmp_path / "tokens", WIDTH)
    column.put({1: unit_vectors(1, 3).astype(np.float16)})
    before = scores(column)
    for key in range(100, 160):
        column.put({key: np.repeat(unit_vectors(key, 1), 300, axis=0).astype(np.float16)})
    assert scores(column) == before


DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("rows", lambda data: data[:10], "no token vectors"),
    ("rows", lambda data: b"something" + data[9:], "no token vectors"),
    ("rows", lambda data: data[:-5], "cut off"),
    ("vectors", lambda data: data[:50], "shorter"),
]


@pytest.mark.parametrize(("file", "damage", "said"), DAMAGES)
def test_damaged_files_are_refused(tmp_path: Path, file: str, damage: Callable[[bytes], bytes], said: str) -> None:
    column = TokenColumn(tmp_path / "tokens", WIDTH)
    column.put({1: unit_vectors(1, 3).astype(np.float16)})
    column.save()
    column.close()
    path = tmp_path / "tokens" / file
    path.write_bytes(damage(path.read_bytes()))
    free = lowest_free_file()
    with pytest.raises(SourceError, match=said):
        TokenColumn(tmp_path / "tokens")
    assert lowest_free_file() <= free, "nothing stays open"


def lowest_free_file() -> int:
    file = os.open(os.devnull, os.O_RDONLY)
    os.close(file)
    return file
