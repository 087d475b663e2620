from __future__ import annotations

from typing import Any

import pytest

from orion_recall.contracts import MemoryVerdictV1
from orion_recall.errors import InvalidMessage
from orion_recall.memory.intake.change import read_changes, read_patch
from orion_recall.memory.record.compose import Patch
from orion_recall.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings.read(memory_kinds=("recipe",))


def test_a_patch_is_its_id_its_version_and_what_changes(settings: Settings):
    found = read_patch({"id": "a", "expected_version": 2, "title": None, "kind": "recipe"}, "memories.0", settings)
    assert found == Patch(id="a", changes={"title": None, "kind": "recipe"}, expected_version=2)


def test_what_no_store_can_hold_is_replaced(settings: Settings):
    assert read_changes({"text": "a\x00\ud800"}, "set", settings) == {"text": "a\ufffd\ufffd"}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ({"title": "x"}, "memories.0.id: "),
        ({"id": 7, "title": "x"}, "memories.0.id: "),
        ({"id": "a" * 513, "title": "x"}, "memories.0.id: "),
        ({"id": "a"}, "nothing to change"),
        ({"id": "a", "expected_version": "1", "title": "x"}, "memories.0.expected_version: "),
        ({"id": "a", "expected_version": True, "title": "x"}, "memories.0.expected_version: "),
        ({"id": "a", "tilte": "x"}, "did you mean title?"),
        ({"id": "a", "supersedes": ["b"]}, "memories.0.supersedes: it cannot be changed"),
        ({"id": "a", "text": None}, "it cannot be cleared"),
        ({"id": "a", "kind": "gossip"}, "'gossip' is no kind of memory; there are world"),
        ({"id": "a", "kind": "gossip"}, "recipe"),
    ],
)
def test_one_that_is_wrong_is_rejected_with_what_to_do(raw: dict[str, Any], says: str, settings: Settings):
    found = read_patch(raw, "memories.0", settings)
    assert isinstance(found, MemoryVerdictV1)
    assert found.status == "rejected"
    assert says in (found.reason or "")


def test_kinds_are_those_of_the_contract_and_of_the_settings(settings: Settings):
    settings.check_kinds(["world", "recipe"], "kinds")
    with pytest.raises(InvalidMessage, match=r"kinds: 'gossip' is no kind of memory; there are world.*recipe"):
        settings.check_kinds(["gossip"], "kinds")
    with pytest.raises(InvalidMessage) as refused:
        settings.check_kinds(["secret"], "kinds")
    assert "secret" not in refused.value.without_values


def test_a_change_is_redacted_as_what_is_stored_is(settings: Settings):
    raw = {"id": "m", "text": "ana@example.org", "speaker": "ana@example.org"}
    patch = read_patch(raw, "memories.0", settings.changed(redact=("store:all",)))
    assert isinstance(patch, Patch)
    assert patch.changes == {"text": "‹e-mail address›", "speaker": "ana@example.org"}
