"""The reader of profile files: strict YAML, and all problems of a file at once, each with line and suggestion."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from orion_recall.errors import ProfileError, ProfileProblem
from orion_recall.profile.model import KeyPath, Profile
from orion_recall.profile.problems import (
    dotted,
    keys_under,
    missing_key,
    nearest_path,
    takes_list,
    unknown_key,
    wrong_shape,
    wrong_value,
)
from orion_recall.profile.yaml_nodes import (
    Unreadable,
    UnreadableValue,
    Words,
    check_tag,
    compose_mapping,
    is_mapping,
    scalar_value,
    shown,
    source_lines,
)

SCHEMA_HEADER = "# yaml-language-server: $schema=../contracts/profile.schema.json"
MAX_FILE_BYTES = 256 * 1024
_MAX_PROBLEMS = 50
_NAME: KeyPath = ("profile",)
_OTHERS: tuple[KeyPath, ...] = (("shadow", "profile"), ("canary", "profile"))
_ANY_NAME = "example"  # the one file whose name need not be its profile's
TEMPLATE = "example.v1"  # the profile of the shipped template, which is there to be copied and not to be asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    mark: yaml.Mark
    value: yaml.Node


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One file while it is read: the places of its keys, and the problems so far."""

    file: str
    lines: list[str] = field(default_factory=list[str])
    places: dict[KeyPath, _Place] = field(default_factory=dict[KeyPath, _Place])
    guessed: set[KeyPath] = field(default_factory=set[KeyPath])
    """Keys that an unknown key seems to stand for: they are not reported as missing as well."""
    problems: list[ProfileProblem] = field(default_factory=list[ProfileProblem])
    profile: Profile | None = None

    @property
    def is_full(self) -> bool:
        return len(self.problems) >= _MAX_PROBLEMS

    def add(self, words: Words, *, line: int, column: int, key: str = "") -> None:
        """Notes a problem; `line` and `column` count from 0."""
        source_line = self.lines[line] if line < len(self.lines) else ""
        self.problems.append(
            ProfileProblem(
                file=self.file,
                line=line + 1,
                column=column + 1,
                key=key,
                message=words[0],
                hint=words[1],
                source_line=source_line,
            )
        )

    def add_at(self, mark: yaml.Mark, path: KeyPath, words: Words) -> None:
        """Notes a problem of the key `path` at `mark`."""
        self.add(words, line=mark.line, column=mark.column, key=dotted(path))

    def place_of(self, path: KeyPath) -> _Place | None:
        """Where the key is, or the nearest key above it that is written in the file."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path)


def load_profile(path: Path) -> Profile:
    """The profile in one YAML file. Raises `ProfileError` with everything that is wrong in it.

    The file has the name of its profile, so that one finds the other; only example.yaml is free.
    """
    reading = _read(path)
    if reading.problems or reading.profile is None:
        raise _error(reading.problems)
    return reading.profile


def parse_profile(text: str) -> Profile:
    """The profile that a text describes. Raises `ProfileError` with everything that is wrong in it."""
    reading = _read_content(_Reading(file="the text"), text.encode())
    if reading.problems or reading.profile is None:
        raise _error(reading.problems)
    return reading.profile


def load_profiles(folder: Path) -> dict[str, Profile]:
    """All profiles of a folder by name. Raises one `ProfileError` for all of its broken files.

    Files whose name begins with a dot (editors' own) are left out, folders too, and the template: example.yaml as
    long as its profile is named `example.v1`.
    """
    try:
        found = sorted(p for p in folder.iterdir() if p.suffix in (".yaml", ".yml") and p.name[0] != ".")
    except OSError as error:
        raise _error([_unreadable(folder, error)]) from error
    readings = [_read(path) for path in found if not path.is_dir()]
    _refuse_second_names(readings)
    for path in _OTHERS:
        _refuse_unknown_others(readings, path)
    problems = [problem for reading in readings for problem in reading.problems]
    if problems:
        raise _error(problems)
    profiles = {r.profile.profile: r.profile for r in readings if r.profile is not None and not _is_template(r)}
    if not profiles:
        raise _error([ProfileProblem(file=str(folder), message="holds no profile (*.yaml)")])
    return profiles


def _is_template(reading: _Reading) -> bool:
    return (
        Path(reading.file).stem == _ANY_NAME and reading.profile is not None and reading.profile.profile == TEMPLATE
    )


def dump_profile(profile: Profile) -> str:
    """The profile as YAML, every value written out; `load_profile` gives an equal one."""
    return f"{SCHEMA_HEADER}\n{yaml.safe_dump(profile.model_dump(mode='json'), sort_keys=False)}"


def _error(problems: list[ProfileProblem]) -> ProfileError:
    return ProfileError("\n".join(str(problem) for problem in problems), tuple(problems))


def _unreadable(path: Path, error: OSError) -> ProfileProblem:
    return ProfileProblem(file=str(path), message=f"cannot be read: {error.strerror or error}")


def _refuse_second_names(readings: list[_Reading]) -> None:
    first: dict[str, _Reading] = {}
    for reading in readings:
        place = reading.places.get(_NAME)
        if place is None or not isinstance(place.value, yaml.ScalarNode):
            continue
        other = first.setdefault(place.value.value, reading)
        if other is not reading:
            line = other.places[_NAME].mark.line + 1
            what = f"{shown(place.value.value)} is already the profile of {other.file}, line {line}"
            reading.add_at(place.mark, _NAME, (what, "give one of them another name, or delete it"))


def _refuse_unknown_others(readings: list[_Reading], path: KeyPath) -> None:
    """A shadow or canary is another profile of the same folder."""
    known = [reading.profile.profile for reading in readings if reading.profile is not None]
    for reading in readings:
        place = reading.places.get(path)
        if reading.profile is None or place is None or len(known) < len(readings):
            continue
        own, section = reading.profile.profile, getattr(reading.profile, path[0])
        wanted = section.profile
        if wanted == own:
            reading.add_at(place.mark, path, (f"{shown(own)} is this profile itself", "name another one"))
        elif wanted is not None and wanted not in known:
            there = ", ".join(shown(name) for name in known if name != own)
            reading.add_at(
                place.mark, path, (f"{shown(wanted)} is no profile of this folder", f"there are {there}")
            )


def _read(path: Path) -> _Reading:
    reading = _Reading(file=str(path))
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reading.problems.append(_unreadable(path, error))
        return reading
    if len(content) > MAX_FILE_BYTES:
        too_large = f"is larger than {MAX_FILE_BYTES // 1024} KB: no profile is"
        reading.problems.append(ProfileProblem(file=reading.file, message=too_large))
        return reading
    reading = _read_content(reading, content)
    if not reading.is_full:
        _check_file_name(path, reading)
        reading.problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return reading


def _read_content(reading: _Reading, content: bytes) -> _Reading:
    reading.lines = source_lines(content)
    try:
        root = compose_mapping(content)
    except Unreadable as error:
        reading.add(error.words, line=error.line, column=error.column)
        return reading
    values = _mapping(root, (), reading)
    if reading.is_full:
        reading.problems.append(ProfileProblem(file=reading.file, message="has more problems: fix these first"))
        return reading
    _validate(values, root, reading)
    reading.problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return reading


def _mapping(node: yaml.MappingNode, path: KeyPath, reading: _Reading) -> dict[str, object]:
    """The readable values under `path`; what cannot be read is noted and left out."""
    values: dict[str, object] = {}
    allowed = keys_under(path)
    for key_node, value_node in node.value:
        if reading.is_full:
            break
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
        here, mark = (*path, key), key_node.start_mark
        if key not in allowed:
            reading.add_at(mark, (*path, shown(key).strip("`")), _unknown(path, key, reading))
        elif here in reading.places:
            first = reading.places[here].mark.line + 1
            words = (f"is given twice: in line {first} and in line {mark.line + 1}", "delete one of them")
            reading.add_at(mark, here, words)
        else:
            reading.places[here] = _Place(mark=mark, value=value_node)
            try:
                values[key] = _value(value_node, here, reading)
            except UnreadableValue as refused:
                reading.add_at(mark, here, refused.words)
    return values


def _unknown(parent: KeyPath, key: str, reading: _Reading) -> Words:
    if key == "<<":
        return "merge keys are not read in a profile", "write the values out"
    guess = nearest_path(parent, key)
    if guess is not None:
        reading.guessed.add(guess)
    return unknown_key(parent, key)


def _value(node: yaml.Node, path: KeyPath, reading: _Reading) -> object:
    has_keys = bool(keys_under(path))
    if has_keys and isinstance(node, yaml.MappingNode) and is_mapping(node):
        return _mapping(node, path, reading)
    check_tag(node)
    if isinstance(node, yaml.SequenceNode) and takes_list(path):
        return [_list_item(item, path) for item in node.value]
    if has_keys or not isinstance(node, yaml.ScalarNode):
        raise UnreadableValue(wrong_shape(path, node))
    return scalar_value(node)


def _list_item(node: yaml.Node, path: KeyPath) -> object:
    check_tag(node)
    if not isinstance(node, yaml.ScalarNode):
        raise UnreadableValue(wrong_shape(path, node))
    return scalar_value(node)


def _validate(values: dict[str, object], root: yaml.MappingNode, reading: _Reading) -> None:
    try:
        reading.profile = Profile.model_validate(values)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            _note_model_error(details, root, reading)


def _note_model_error(error: ErrorDetails, root: yaml.MappingNode, reading: _Reading) -> None:
    path: KeyPath = tuple(str(part) for part in error["loc"])
    if error["type"] == "missing":
        if path not in reading.places and path not in reading.guessed:
            reading.add_at(root.start_mark, path, missing_key(path))
        return
    place = reading.places.get(path)
    if place is not None and isinstance(place.value, yaml.ScalarNode):
        reading.add_at(place.mark, path, wrong_value(path, error, place.value))
        return
    # A check across keys names the key it is about in its context.
    path = (*path, *filter(None, str(error.get("ctx", {}).get("key", "")).split(".")))
    place = reading.place_of(path)
    reading.add_at(place.mark if place else root.start_mark, path, (error["msg"], ""))


def _check_file_name(path: Path, reading: _Reading) -> None:
    place = reading.places.get(_NAME)
    if place is None or path.stem == _ANY_NAME or not isinstance(place.value, yaml.ScalarNode):
        return
    name = place.value.value
    if name != path.stem and not any(problem.key == "profile" for problem in reading.problems):
        hint = f"rename the file to {shown(name + path.suffix)}, or the profile to {shown(path.stem)}"
        reading.add_at(place.mark, _NAME, (f"{shown(name)} is not the name of its file", hint))
