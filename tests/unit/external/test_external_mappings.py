"""Mappings of stores of others: what a file may say, and what is said when it says something else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from orion_recall.errors import SettingsError
from orion_recall.external.mappings import Mappings, load_mappings
from orion_recall.external.opening import open_mapped
from orion_recall.models.embedder import OnnxEmbedder
from orion_recall.models.sparse import SparseEncoder
from orion_recall.settings import Settings
from orion_recall.sources.timeline import TimelineTable

WHOLE = """
qdrant:
  - name: notes
    url: http://qdrant:6333
    api_key_env: NOTES_KEY
    collection: notes
    vector: body
    sparse: words
    tenant: default
    payload: {text: body, title: head.line, time: at, time_format: epoch, uri: link, tags: labels}
sparql:
  - {name: wiki, url: "http://graph:7878/query", graph: "urn:wiki", tenant: default, text: "urn:says"}
tables:
  - {name: tickets, table: public.tickets, tenant: default, columns: {id: number, ts: opened, text: summary}}
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mappings.yaml"
    path.write_text(text, "utf-8")
    return path


def test_an_empty_file_maps_nothing(tmp_path: Path) -> None:
    assert load_mappings(written(tmp_path, "# later\n")) == Mappings()


def test_a_whole_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mappings = load_mappings(written(tmp_path, WHOLE))
    (notes,), (wiki,), (tickets,) = mappings.qdrant, mappings.sparql, mappings.tables
    assert (notes.vector, notes.sparse, notes.payload.title) == ("body", "words", "head.line")
    assert (wiki.graph, wiki.secret) == ("urn:wiki", None)
    assert (tickets.columns.id, tickets.secret) == ("number", None)
    monkeypatch.setenv("NOTES_KEY", "s3cret")
    assert notes.secret == "s3cret"
    assert "s3cret" not in repr(mappings)


def test_the_text_of_a_table_may_be_several_columns_with_labels_or_without(tmp_path: Path) -> None:
    for text in ("[summary, mantra]", "{User: prompt, Orion: response}"):
        (tickets,) = load_mappings(written(tmp_path, WHOLE.replace("text: summary", f"text: {text}"))).tables
        table = TimelineTable.mapped(tickets.table, tickets.columns.named, tickets.tenant)
        assert [tuple(part) for part in table.text] == (
            [("summary", None), ("mantra", None)] if "[" in text else [("prompt", "User"), ("response", "Orion")]
        )


async def test_no_store_has_the_name_of_the_timelines_own_table(tmp_path: Path) -> None:
    mappings = load_mappings(written(tmp_path, WHOLE))
    settings = Settings.read(timeline_table="tickets", timeline_tenant="default")
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(SettingsError, match="have the name 'tickets'"):
            await open_mapped(mappings, settings, OnnxEmbedder(), SparseEncoder(), stack)


def test_a_secret_that_is_not_set_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTES_KEY", raising=False)
    (notes,) = load_mappings(written(tmp_path, WHOLE)).qdrant
    with pytest.raises(SettingsError, match="'notes' takes its secret from NOTES_KEY, which is not set"):
        assert notes.secret


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("collection: notes", "colection: notes"), r":6: `qdrant\.0\.colection`: Extra inputs"),
        (("    collection: notes\n", ""), r":3: `qdrant\.0\.collection`: Field required"),
        (("    tenant: default\n", ""), "say whose it is"),
        (("text: body,", "text: body, tenant: whose,"), "say whose it is"),
        (("name: wiki", "name: notes"), "two stores have the name 'notes'"),
        (('"urn:says"', '"urn:s ays"'), r":12: `sparql\.0\.text`"),
        (("time_format: epoch", "time_format: unix"), r":10: `qdrant\.0\.payload\.time_format`"),
        (("- {name: tickets", "- [name: tickets"), "is not YAML"),
        (("http://qdrant:6333", "qdrant:6333"), r":4: `qdrant\.0\.url`"),
        (("id: number", "number: id"), r":14: `tables\.0\.columns\.number`: Extra inputs"),
        (("text: summary", "text: []"), r":14: `tables\.0\.columns\.text"),
        (("text: summary", "text: {User: 5}"), r":14: `tables\.0\.columns\.text"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    assert change[0] in WHOLE
    with pytest.raises(SettingsError, match=said):
        load_mappings(written(tmp_path, WHOLE.replace(*change)))


def test_a_file_that_is_not_there_or_is_none(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load_mappings(tmp_path / "nowhere.yaml")
    with pytest.raises(SettingsError, match="larger than"):
        load_mappings(written(tmp_path, "# " + "x" * 300_000))
    with pytest.raises(SettingsError, match=":1: "):
        load_mappings(written(tmp_path, "- a list\n"))


def test_an_address_with_a_password_is_refused_without_it(tmp_path: Path) -> None:
    for url in ("http://me:hunter2@qdrant:6333", "http://qdrant:6333?api_key=hunter2"):
        with pytest.raises(
            SettingsError, match=r"mappings.yaml:4: `qdrant.0.url`: leave user.*api_key_env"
        ) as refused:
            load_mappings(written(tmp_path, WHOLE.replace("http://qdrant:6333", url)))
        assert "hunter2" not in str(refused.value)
