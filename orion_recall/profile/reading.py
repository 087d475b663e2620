"""The reader of profile files: strict YAML, and all problems of a file at once, each with line and suggestion."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from yaml.reader import ReaderError

from orion_recall.contracts.fields import message_of
from orion_recall.errors import ProfileError, ProfileProblem
from orion_recall.packages import Refused, every_refused
from orion_recall.profile.model import KeyPath, Profile, profile_fields
from orion_recall.source_specs import top_k_key
from orion_recall.values import LAYER_NAMES

SCHEMA_HEADER = "# yaml-language-server: $schema=../contracts/profile.schema.json"
MAX_FILE_BYTES = 64 * 1024
_MOST_BRACKETS = 1000  # each that is open is looked at for every further one
_MAX_PROBLEMS = 50
_NAME: KeyPath = ("profile",)
_ANY_NAME = "example"  # the one file whose name need not be its profile's
TEMPLATE = "example.v1"  # the profile of the shipped template, which is there to be copied and not to be asked for

_OWN_FIELDS = profile_fields()
_FIELDS = profile_fields(with_overrides=True)
_KEYS: dict[KeyPath, list[str]] = {}
for _path in _FIELDS:
    _KEYS.setdefault(_path[:-1], []).append(_path[-1])

FORMER_KEYS: Mapping[str, str] = {
    "succession": "only stated successors count: write `superseded: mark`, `omit` (for `outdated: drop`) or `keep`",
    "ranking_with_assistant": "`ranking` holds everywhere: leave it out",
    "time.past_factor": "a time that is over decides by itself where many memories fit alike: leave it out",
    **{
        f"cascade.layers.{name}.profile": "a layer is searched by the query's own profile: leave it out"
        for name in LAYER_NAMES
    },
    "near_duplicate_similarity": "only equal texts count as the same memory: leave it out",
    **dict.fromkeys(
        ("expansion.feedback_documents", "expansion.feedback_terms", "expansion.feedback_weight"),
        "no second search is made with words of what was found first: leave it out",
    ),
    "graph.conversation": "the walk over conversations is gone: leave it out",
    "ranking.conversation": "the walk over conversations is gone; `neighbour` and `session` weigh what is around",
    **dict.fromkeys(
        ("ranking.introduces", "ranking.tells_name", "ranking.tells_number", "ranking.length"),
        "it is no part of the score any more: leave it out",
    ),
    **dict.fromkeys(
        ("canary.steps", "canary.step_minutes", "canary.min_queries", "canary.gates"),
        "a canary answers a fixed `share`: raise it, or leave `canary` out, as `decisions compare` shows",
    ),
    "ranking.no_chatter": "chatter comes last in recaps only: leave it out",
}
"""Keys that profiles once had, and what took their place."""

_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = frozenset(
    _TAG + name for name in ("str", "null", "bool", "int", "float", "timestamp", "value", "merge", "seq", "map")
)
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # what PyYAML counts as one
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]{0,400})")  # neither octal nor base 60, which YAML 1.1 has
_BOOLEANS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_HINTS = {
    "int_type": "write plain digits, without quotes or units: ",
    "float_type": "write plain digits, without quotes or units: ",
    "bool_type": "write true or false, without quotes: ",
    "string_type": "put it in quotes: ",
    "tuple_type": "write [one, another]: ",
}

_Words = tuple[str, str]
"""What is wrong, and what to write instead ("" when there is nothing to suggest)."""


class _Place(NamedTuple):
    mark: yaml.Mark
    value: yaml.Node


class _Unreadable(Exception):
    """A text that is not one YAML mapping: what is wrong, a hint, and line and column, counted from 0."""


@dataclass(slots=True, kw_only=True)
class _Reading:
    """One file while it is read: the places of its keys, and the problems so far.

    `guessed` are keys that an unknown key seems to stand for: they are not reported as missing as well.
    """

    file: str
    lines: list[str] = field(default_factory=list[str])
    places: dict[KeyPath, _Place] = field(default_factory=dict[KeyPath, _Place])
    guessed: set[KeyPath] = field(default_factory=set[KeyPath])
    problems: list[ProfileProblem] = field(default_factory=list[ProfileProblem])
    profile: Profile | None = None

    def add(self, line: int, column: int, path: KeyPath, what: str, hint: str = "") -> None:
        """Notes a problem; `line` and `column` count from 0."""
        problem = ProfileProblem(file=self.file, line=line + 1, column=column + 1, key=".".join(path), message=what)
        source_line = self.lines[line] if line < len(self.lines) else ""
        self.problems.append(replace(problem, hint=hint, source_line=source_line))

    def add_at(self, mark: yaml.Mark, path: KeyPath, what: str, hint: str = "") -> None:
        self.add(mark.line, mark.column, path, what, hint)

    def name_place(self) -> tuple[yaml.Mark, str] | None:
        """Where the profile's name stands, and the name."""
        place = self.places.get(_NAME)
        return (place.mark, place.value.value) if place and isinstance(place.value, yaml.ScalarNode) else None


def load_profile(path: Path) -> Profile:
    """The profile in one YAML file of its name, or in example.yaml; `ProfileError` with all that is wrong in it."""
    return _profile_of(_read(path))


def parse_profile(text: str, path: Path | None = None) -> Profile:
    """The profile that a text, of a file where one is named, describes; `ProfileError` with all that is wrong."""
    reading = _Reading(file="the text" if path is None else str(path))
    return _profile_of(_read_content(reading, text.encode(), path))


def load_profiles(folder: Path) -> dict[str, Profile]:
    """All profiles of a folder by name. Raises one `ProfileError` for all of its broken files.

    Files whose name begins with a dot (editors' own) are left out, folders too, and the template: example.yaml as
    long as its profile is named `example.v1`.
    """
    try:
        found = sorted(p for p in folder.iterdir() if p.suffix in (".yaml", ".yml") and p.name[0] != ".")
    except OSError as error:
        raise _error([_not_read(folder, error)]) from error
    readings = [_read(path) for path in found if not path.is_dir()]
    _refuse_second_names(readings)
    for section in ("shadow", "canary"):
        _refuse_unknown_others(readings, (section, "profile"))
    if problems := [problem for reading in readings for problem in reading.problems]:
        raise _error(problems)
    profiles = {
        one.profile.profile: one.profile
        for one in readings
        if one.profile is not None and (Path(one.file).stem, one.profile.profile) != (_ANY_NAME, TEMPLATE)
    }
    if not profiles:
        raise _error([ProfileProblem(file=str(folder), message="holds no profile (*.yaml)")])
    return profiles


def dump_profile(profile: Profile) -> str:
    """The profile as YAML, every value written out; `load_profile` gives an equal one."""
    return f"{SCHEMA_HEADER}\n{yaml.safe_dump(profile.model_dump(mode='json'), sort_keys=False)}"


def nearest_path(parent: KeyPath, key: str) -> KeyPath | None:
    """The valid key that an unknown one most likely stands for."""
    spelled = key.lower().replace("-", "_")
    for candidates in (
        [path for path in _FIELDS if path[:-1] == parent],
        [path for path in _OWN_FIELDS if path[:-1] != parent],
    ):
        names = {path[-1]: path for path in candidates}
        if near := difflib.get_close_matches(spelled, names, n=1, cutoff=0.6):
            return names[near[0]]
    return None


def compose_mapping(content: bytes) -> yaml.MappingNode:
    """The one mapping that `content` holds, as nodes with marks; aliases stay shared nodes."""
    hint = "check colons, quotes and the indentation, with spaces and no tabs"
    try:
        root = yaml.SafeLoader(content.decode("utf-8-sig")).get_single_node()
    except UnicodeDecodeError as error:
        place = _end_of(content[: error.start])
        raise _Unreadable("this is not UTF-8", "save the file as UTF-8", *place) from error
    except ReaderError as error:
        before = content.decode("utf-8-sig")[: error.position].encode()
        what = f"the control character U+{error.character:04X} is not allowed in YAML"
        raise _Unreadable(what, "remove it", *_end_of(before)) from error
    except yaml.MarkedYAMLError as error:
        # An unfinished key or quote is noticed too late: where it began is the context's mark.
        is_late = "could not find expected ':'" in f"{error.problem}" or "quoted scalar" in f"{error.context}"
        mark = (error.context_mark if is_late else None) or error.problem_mark or error.context_mark
        place = (mark.line, mark.column) if mark else (0, 0)
        raise _Unreadable(f"this is not YAML: {error.problem}", hint, *place) from error
    except (ValueError, OverflowError, RecursionError) as error:  # "\\UFFFFFFFF", thousands of brackets
        raise _Unreadable(f"this is not YAML: {error}", hint, 0, 0) from error
    start = "start from profiles/example.yaml"
    if root is None:
        raise _Unreadable("the file is empty", start, 0, 0)
    if not isinstance(root, yaml.MappingNode) or root.tag != _TAG + "map":
        mark = root.start_mark
        raise _Unreadable("this is not a mapping of `key: value` lines", start, mark.line, mark.column)
    return root


def _end_of(content: bytes) -> tuple[int, int]:
    lines = _source_lines(content)
    return len(lines) - 1, len(lines[-1])


def _source_lines(content: bytes) -> list[str]:
    return _LINE_BREAK.split(content.decode("utf-8-sig", errors="replace"))


def _shown(text: str) -> str:
    """`text` in back quotes, on one line, cut to a readable length."""
    flat = " ".join(text.split())
    return f"`{flat[:57]}...`" if len(flat) > 60 else f"`{flat}`"


def _profile_of(reading: _Reading) -> Profile:
    if reading.problems or reading.profile is None:
        raise _error(reading.problems)
    return reading.profile


def _error(problems: list[ProfileProblem]) -> ProfileError:
    return ProfileError("\n".join(str(problem) for problem in problems), tuple(problems))


def _not_read(path: Path, error: OSError) -> ProfileProblem:
    return ProfileProblem(file=str(path), message=f"cannot be read: {error.strerror or error}")


def _refuse_second_names(readings: list[_Reading]) -> None:
    first: dict[str, _Reading] = {}
    for reading in readings:
        if (place := reading.name_place()) is None:
            continue
        mark, name = place
        other = first.setdefault(name, reading)
        if other is not reading:
            line = other.places[_NAME].mark.line + 1
            what = f"{_shown(name)} is already the profile of {other.file}, line {line}"
            reading.add_at(mark, _NAME, what, "give one of them another name, or delete it")


def _refuse_unknown_others(readings: list[_Reading], path: KeyPath) -> None:
    """A shadow or canary is another profile of the same folder."""
    known = [reading.profile.profile for reading in readings if reading.profile is not None]
    for reading in readings:
        place = reading.places.get(path)
        if reading.profile is None or place is None or len(known) < len(readings):
            continue
        own, wanted = reading.profile.profile, getattr(reading.profile, path[0]).profile
        if wanted == own:
            reading.add_at(place.mark, path, f"{_shown(own)} is this profile itself", "name another one")
        elif wanted is not None and wanted not in known:
            there = ", ".join(_shown(name) for name in known if name != own)
            reading.add_at(place.mark, path, f"{_shown(wanted)} is no profile of this folder", f"there are {there}")


def _read(path: Path) -> _Reading:
    reading = _Reading(file=str(path))
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reading.problems.append(_not_read(path, error))
        return reading
    return _read_content(reading, content, path)


def _read_content(reading: _Reading, content: bytes, path: Path | None) -> _Reading:
    if len(content) > MAX_FILE_BYTES:
        too_large = f"is larger than {MAX_FILE_BYTES // 1024} KB: no profile is"
        reading.problems.append(ProfileProblem(file=reading.file, message=too_large))
        return reading
    if content.count(b"[") + content.count(b"{") > _MOST_BRACKETS:
        too_many = f"has more than {_MOST_BRACKETS} opening brackets: no profile has"
        reading.problems.append(ProfileProblem(file=reading.file, message=too_many))
        return reading
    reading.lines = _source_lines(content)
    try:
        root = compose_mapping(content)
    except _Unreadable as error:
        what, hint, line, column = error.args
        reading.add(line, column, (), what, hint)
        return reading
    values = _mapping(root, (), reading)
    if len(reading.problems) >= _MAX_PROBLEMS:
        reading.problems.append(ProfileProblem(file=reading.file, message="has more problems: fix these first"))
        return reading
    try:
        reading.profile = Profile.model_validate(values)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            _note_model_error(details, root, reading)
    place, is_bad = reading.name_place(), any(problem.key == "profile" for problem in reading.problems)
    if place is not None and path is not None and path.stem not in (place[1], _ANY_NAME) and not is_bad:
        mark, name = place
        hint = f"rename the file to {_shown(name + path.suffix)}, or the profile to {_shown(path.stem)}"
        reading.add_at(mark, _NAME, f"{_shown(name)} is not the name of its file", hint)
    reading.problems.sort(key=lambda problem: (problem.line or 0, problem.column or 0))
    return reading


def _mapping(node: yaml.MappingNode, path: KeyPath, reading: _Reading) -> dict[str, object]:
    """The readable values under `path`; what cannot be read is noted and left out."""
    values: dict[str, object] = {}
    allowed = _KEYS.get(path, ())
    for key_node, value in node.value:
        if len(reading.problems) >= _MAX_PROBLEMS:
            break
        key, mark = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?", key_node.start_mark
        here = (*path, key)
        if key not in allowed:
            if (guess := nearest_path(path, key)) is not None:
                reading.guessed.add(guess)
            reading.add_at(mark, (*path, _shown(key).strip("`")), *_unknown(path, key, guess))
        elif here in reading.places:
            first = reading.places[here].mark.line + 1
            what = f"is given twice: in line {first} and in line {mark.line + 1}"
            reading.add_at(mark, here, what, "delete one of them")
        else:
            reading.places[here] = _Place(mark, value)
            try:
                values[key] = _value(value, here, reading)
            except ValueError as refused:
                reading.add_at(mark, here, str(refused))
    return values


def _unknown(parent: KeyPath, key: str, guess: KeyPath | None) -> _Words:
    """The words for a key that `parent` does not have: where it belongs, or the nearest key."""
    if key == "<<":
        return "merge keys are not read in a profile", "write the values out"
    without_strategy = parent[2:] if parent[:1] == ("strategies",) else parent
    if (instead := FORMER_KEYS.get(".".join((*without_strategy, key)))) is not None:
        return "is no key any more", instead
    if (refused := _refused_package(key)) is not None:
        return "is not a known key", f"{refused}"
    owners = [path for path in _OWN_FIELDS if path[-1] == key or ".".join(path) == key]
    if owners:
        belongs = (f"`{path[-1]}` belongs {_under(path[:-1])}" for path in owners)
        return "is not a key here", " or ".join(belongs)
    # A key that is nearly another is a slip of the pen; `notes_top_k` is like every other `_top_k`.
    is_top_k = not without_strategy and key.endswith("_top_k")
    added = is_top_k or (guess is None and without_strategy in _ADDED_UNDER)
    installed = " Or is a package that adds it not installed here?" if added else ""
    if guess is not None:
        where = "" if guess[:-1] == parent else f" {_under(guess[:-1])}"
        return "is not a known key", f"did you mean `{guess[-1]}`{where}?{installed}"
    known = _keys_under(parent) if parent else "explained in profiles/example.yaml"
    return "is not a known key", f"the keys {_under(parent)} are {known}{installed and '.'}{installed}"


_ADDED_UNDER: tuple[KeyPath, ...] = (("fusion", "weights"), ("ranking",))
"""Where packages of others add keys, besides the hits of their sources."""


def _refused_package(key: str) -> Refused | None:
    """The entry point of another package that the key would be of, if it could be used."""
    return next((one for one in every_refused() if key in (one.name, top_k_key(one.name))), None)


def _under(parent: KeyPath) -> str:
    return f"under `{'.'.join(parent)}`" if parent else "at the top level"


def _keys_under(path: KeyPath) -> str:
    return ", ".join(f"`{name}`" for name in _KEYS[path])


def _value(node: yaml.Node, path: KeyPath, reading: _Reading) -> object:
    """The node as a value that the model judges. ValueError for a tag, and for a number that may be misread."""
    if node.tag not in _PLAIN_TAGS:
        raise ValueError(f"the tag {_shown(node.tag)} is not allowed here: remove it")
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, reading) if path in _KEYS else {}
    if isinstance(node, yaml.SequenceNode):
        # Nothing in a list holds further values: aliases in aliases are not followed.
        items: list[yaml.Node] = node.value
        return [_value(item, path, reading) if isinstance(item, yaml.ScalarNode) else None for item in items]
    return _scalar(node.value, node.tag.removeprefix(_TAG))


def _scalar(text: str, kind: str) -> str | int | float | bool | None:
    """A value as YAML 1.1 means it, less its octal, hexadecimal and base-60 numbers; a date stays text."""
    match kind:
        case "null":
            return None
        case "bool":
            return _BOOLEANS.get(text.lower(), text)
        case "int" if _INTEGER.fullmatch(text):
            return int(text.replace("_", ""))
        case "int":
            raise ValueError(f"{_shown(text)} is no decimal number to YAML 1.1: write plain decimal digits")
        case "float":
            try:
                return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))
            except ValueError:
                raise ValueError(f"{_shown(text)} is no decimal number: write plain decimal digits") from None
        case _:
            return text


def _note_model_error(error: ErrorDetails, root: yaml.MappingNode, reading: _Reading) -> None:
    path: KeyPath = tuple(str(part) for part in error["loc"])
    if error["type"] == "missing":
        if path not in reading.places and path not in reading.guessed:
            reading.add_at(root.start_mark, path, "is missing", f"add it: {_FIELDS[path].description}")
        return
    place = reading.places.get(path)
    if place is not None and path in _FIELDS and "key" not in error.get("ctx", {}):
        reading.add_at(place.mark, path, *_wrong_value(path, error, place.value))
        return
    # A check across keys names the key it is about in its context; an element of a list has its list's place.
    path = (*path, *filter(None, str(error.get("ctx", {}).get("key", "")).split(".")))
    above = path
    while above and above not in reading.places:
        above = above[:-1]
    refused = _refused_package(str(error.get("input")))
    hint = "" if refused is None else f"{refused}"
    reading.add_at(reading.places[above].mark if above else root.start_mark, path, error["msg"], hint)


def _wrong_value(path: KeyPath, error: ErrorDetails, node: yaml.Node) -> _Words:
    """The words for a value that the model refuses: the model's own, and what the key takes."""
    is_null = node.tag == _TAG + "null"
    if path in _KEYS:
        return "has nothing under it" if is_null else "needs keys under it", f"its keys are {_keys_under(path)}"
    about, message = str(_FIELDS[path].description), message_of(error)
    if is_null:
        return (
            "has no value",
            f"give one{'' if _FIELDS[path].is_required() else ', or leave the line out'}: {about}",
        )
    if not isinstance(node, yaml.ScalarNode):
        return message, _HINTS.get(error["type"], "write one value: ") + about
    if error["type"] == "literal_error":
        choices = re.findall(r"'([^']*)'", str(error.get("ctx", {})["expected"]))
        if (refused := _refused_package(node.value)) is not None:
            return f"{_shown(node.value)} is not one of the choices", str(refused)
        if near := difflib.get_close_matches(node.value.lower().replace("-", "_"), choices, n=1):
            return f"{_shown(node.value)} is not one of the choices", f"did you mean `{near[0]}`?"
    return f"{_shown(node.value)}: {message}", _HINTS.get(error["type"], "") + about
