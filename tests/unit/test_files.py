"""Files: shipped with the package, and written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

import pytest
import yaml

import orion_recall
from orion_recall.atomic_file import whole_text
from orion_recall.errors import SettingsError
from orion_recall.profile.model import Profile, diff_profiles, profile_fields
from orion_recall.profile.reading import SCHEMA_HEADER, compose_mapping, load_profile, load_profiles
from orion_recall.shipped import shipped_folder
from orion_recall.values import QUERY_CLASSES, QUESTION_SHAPES


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path):
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    with whole_text(target) as lines:
        lines.write("one\nzwö\r\n")
        lines.flush()
        assert target.read_text() == "before"
    assert target.read_bytes() == "one\nzwö\r\n".encode()
    assert list(tmp_path.iterdir()) == [target]


def test_what_ends_badly_leaves_what_was_there_and_nothing_else(tmp_path: Path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("before")
    for target in (old, new):
        with pytest.raises(KeyboardInterrupt), whole_text(target) as lines:
            lines.write("half")
            raise KeyboardInterrupt
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("old", "before")]


def test_a_file_is_its_owners_alone_whatever_was_there(tmp_path: Path):
    new, old, linked = tmp_path / "new", tmp_path / "old", tmp_path / "linked"
    old.write_text("before")
    old.chmod(0o644)
    linked.symlink_to(old)
    for target in (new, old, linked):
        with whole_text(target) as lines:
            lines.write("memories")
        assert target.stat().st_mode & 0o777 == 0o600, target
    assert linked.is_symlink()


@pytest.mark.parametrize("what", ["a link", "a file"])
def test_nothing_is_written_through_what_somebody_put_in_the_way(tmp_path: Path, what: str):
    target, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    part = tmp_path / f".out.{os.getpid()}.part"
    held: IO[str] | None = None
    if what == "a link":
        part.symlink_to(elsewhere)
    else:
        part.write_text("theirs")
        part.chmod(0o666)
        held = part.open()
    with whole_text(target) as lines:
        lines.write("memories")
    assert (target.read_text(), elsewhere.read_text()) == ("memories", "theirs")
    assert target.stat().st_mode & 0o777 == 0o600
    if held is not None:
        assert held.read() == "theirs", "who made it reads nothing of ours"
        held.close()


@pytest.mark.parametrize("what", ["a link", "a pipe"])
def test_nothing_is_written_to_a_link_or_a_pipe_of_somebody_else(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
):
    target, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    if what == "a link":
        target.symlink_to(elsewhere)
    else:
        os.mkfifo(target)
    if os.geteuid() == 0:
        os.chown(target, 4711, 4711, follow_symlinks=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(SettingsError, match="is a link or a pipe of somebody else"), whole_text(target):
        pass
    assert elsewhere.read_text() == "theirs"


PROFILES = shipped_folder("profiles")


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def test_in_a_checkout_the_shipped_folder_is_at_the_top():
    top = Path(next(iter(orion_recall.__path__))).resolve().parent
    assert shipped_folder("profiles") == top / "profiles"


def test_in_an_installation_the_shipped_folder_is_inside_the_package(tmp_path: Path):
    shipped = folder(tmp_path / "orion_recall" / "_shipped" / "profiles")
    folder(tmp_path / "profiles")
    (tmp_path / "pyproject.toml").touch()
    assert shipped_folder("profiles", package=tmp_path / "orion_recall") == shipped


def test_a_folder_of_somebody_else_beside_the_installed_package_is_not_taken(tmp_path: Path):
    folder(tmp_path / "profiles")
    with pytest.raises(SettingsError, match=r"lacks its folder 'profiles'.*reinstall"):
        shipped_folder("profiles", package=tmp_path / "orion_recall")


@pytest.mark.parametrize("path", sorted(PROFILES.glob("*.yaml")), ids=lambda p: p.name)
def test_every_shipped_profile_begins_with_the_schema_header(path: Path):
    assert path.read_text(encoding="utf-8").splitlines()[0] == SCHEMA_HEADER


def test_the_shipped_profiles_have_the_values_of_the_founding_table():
    keys = (
        "vector_top_k",
        "rdf_top_k",
        "max_per_source",
        "max_total_items",
        "time_decay_half_life_hours",
        "render_budget_tokens",
        "enable_query_expansion",
        "enable_sql_timeline",
        "sql_since_minutes",
        "sql_top_k",
    )
    table = {
        "assist.light.v1": (6, 0, 3, 8, 24, 180, True, False, 180, 8),
        "reflect.v1": (12, 6, 4, 12, 72, 256, True, True, 180, 8),
        "deep.graph.v1": (8, 12, 5, 14, 168, 320, True, True, 720, 12),
    }
    profiles = load_profiles(PROFILES)
    found = {name: tuple(getattr(profiles[name], key) for key in keys) for name in table}
    assert found == table


@pytest.mark.parametrize("name", ["assist.light.v1", "reflect.v1", "deep.graph.v1"])
def test_recaps_and_lists_alone_have_more_room_than_the_founding_table(name: str):
    profile = load_profiles(PROFILES)[name]
    for query_class in QUERY_CLASSES:
        used = profile.for_class(query_class)
        assert used.max_total_items == profile.max_total_items
        assert used.render_budget_tokens == profile.render_budget_tokens
        for shape in QUESTION_SHAPES:
            roomier = profile.for_class(query_class, shape)
            assert roomier.max_total_items > profile.max_total_items
            assert roomier.render_budget_tokens > profile.render_budget_tokens
            assert roomier.later_snippet_tokens < profile.snippet_tokens  # until all that fit are in


def test_the_shipped_profiles_search_the_whole_tenant():
    assert {profile.scope for profile in load_profiles(PROFILES).values()} == {"global"}


def test_the_example_writes_out_every_key():
    def keys(node: object, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        found: set[tuple[str, ...]] = set()
        for key, value in getattr(node, "value", []):
            here = (*path, key.value)
            found |= {here} | (keys(value, here) if isinstance(value, yaml.MappingNode) else set())
        return found

    written = keys(compose_mapping((PROFILES / "example.yaml").read_bytes()))
    assert written == set(profile_fields())


def test_the_example_shows_the_default_of_every_key_that_has_one():
    example = load_profile(PROFILES / "example.yaml")
    required = {path[0] for path, field in profile_fields().items() if field.is_required()}
    plain = Profile.model_validate({key: getattr(example, key) for key in required})
    assert diff_profiles(example, plain) == []
