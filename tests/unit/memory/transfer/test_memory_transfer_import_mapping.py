from __future__ import annotations

from typing import Any

import pytest

from orion_recall.errors import ImportFileError
from orion_recall.memory.transfer.import_mapping import map_record, read_mapping


def test_fields_are_renamed_and_the_others_go_into_metadata() -> None:
    mapping = read_mapping("id=memory_id, tenant=conversation_id")
    line = {"memory_id": "m1", "conversation_id": "c1", "text": "x", "dia_id": "D1:1", "caption": "", "n": None}
    assert map_record(line, mapping) == {
        "id": "m1", "tenant": "c1", "text": "x", "metadata": {"dia_id": "D1:1"},
    }  # fmt: skip


def test_dots_go_into_objects_and_the_rest_of_the_object_is_kept() -> None:
    mapping = read_mapping("text=body.content.plain,id=key.id")
    line = {"key": {"id": 7}, "body": {"content": {"plain": "x"}, "lang": "en"}}
    assert map_record(line, mapping) == {
        "id": "7", "text": "x", "metadata": {"body": {"content": {}, "lang": "en"}},
    }  # fmt: skip


def test_a_field_whose_own_name_has_dots_wins_over_a_path() -> None:
    assert map_record({"a.b": "plain", "a": {"b": "inner"}}, read_mapping("text=a.b")) == {
        "text": "plain", "metadata": {"a": {"b": "inner"}},
    }  # fmt: skip


def test_a_known_name_that_the_mapping_took_over_is_not_lost() -> None:
    line = {"id": "row-1", "memory_id": "m1", "text": "x"}
    assert map_record(line, read_mapping("id=memory_id"))["metadata"] == {"id": "row-1"}


def test_own_metadata_and_unknown_fields_of_the_same_name_are_both_kept() -> None:
    found = map_record({"id": "a", "metadata": {"n": 1}, "n": 2}, read_mapping())
    assert found["metadata"] == {"n": 1, "n_": 2}


@pytest.mark.parametrize(("given", "expected"), [("one", ["one"]), (["a", 2, ""], ["a", "2"]), (3, ["3"])])
def test_a_single_tag_is_a_list_of_one(given: Any, expected: list[str]) -> None:
    assert map_record({"tags": given}, read_mapping())["tags"] == expected


def test_a_naive_time_gets_the_zone() -> None:
    found = map_record({"occurred_at": "2026-07-01T10:00:00"}, read_mapping(timezone="Europe/Oslo"))
    assert found["occurred_at"] == "2026-07-01T10:00:00+02:00"


def test_a_time_with_a_zone_and_an_epoch_time_stay_as_they_are() -> None:
    line = {"occurred_at": "2026-07-01T10:00:00Z", "mentioned_at": 1772357400}
    assert map_record(line, read_mapping(timezone="Europe/Oslo")) == line


def test_a_naive_time_without_a_zone_asks_for_timezone() -> None:
    with pytest.raises(ImportFileError, match="give --timezone"):
        map_record({"occurred_at": "2026-07-01T10:00:00"}, read_mapping())


def test_the_tenant_is_for_lines_that_name_none() -> None:
    mapping = read_mapping(tenant="acme")
    assert map_record({"id": "a"}, mapping)["tenant"] == "acme"
    assert map_record({"id": "a", "tenant": "b"}, mapping)["tenant"] == "b"
    assert map_record({"id": "a", "tenant": ""}, mapping)["tenant"] == "acme"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("ocurred_at=when", "did you mean 'occurred_at'"),
        ("qqq=when", "its fields are id, text"),
        ("id", "field=source_field"),
        ("id=", "field=source_field"),
        ("id=a,id=b", "given twice"),
    ],
)
def test_a_wrong_mapping_says_what_to_write(asked: str, message: str) -> None:
    with pytest.raises(ImportFileError, match=message):
        read_mapping(asked)


def test_an_unknown_zone_names_the_nearest() -> None:
    with pytest.raises(ImportFileError, match="did you mean 'Europe/Oslo'"):
        read_mapping(timezone="europe/oslow")
