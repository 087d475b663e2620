"""`orion-recall profiles`: lists, shows, checks and compares profiles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from orion_recall.cli.connect.addresses import DataFolder, find, open_postgres
from orion_recall.cli.output import JsonFlag, console, counted, note, print_error, print_json, table, visible
from orion_recall.decisions.profile_texts import profile_text
from orion_recall.errors import ProfileError, ProfileProblem, SettingsError
from orion_recall.profile import Profile, diff_profiles
from orion_recall.profile.reading import dump_profile, load_profile, load_profiles
from orion_recall.settings import Settings
from orion_recall.shipped import shipped_folder

app = typer.Typer(
    add_completion=False,
    rich_markup_mode="markdown",
    help="""Look at profiles, check them, compare them.

    The profiles are those of ORION_PROFILES_DIR, or else the shipped ones. To make your own: copy example.yaml,
    name the copy after its profile, and check it.

    Example: `orion-recall profiles check mine/*.yaml`
    """,
)


@app.command("list")
def list_profiles(as_json: JsonFlag = False) -> None:
    """Every profile with its sources and limits.

    Example: `orion-recall profiles list`
    """
    settings = Settings.read()
    profiles = load_profiles(_folder(settings))
    if as_json:
        listed = [
            {
                "profile": name,
                "default": name == settings.default_profile,
                "sources": profile.sources_on,
                "max_total_items": profile.max_total_items,
                "render_budget_tokens": profile.render_budget_tokens,
                "strategies": list(profile.strategies.model_dump()),
                "shadow": profile.shadow.profile,
                "canary": profile.canary.profile,
                "hash": profile.content_hash,
                "description": profile.description,
            }
            for name, profile in profiles.items()
        ]
        print_json({"folder": str(_folder(settings)), "profiles": listed})
        return
    rows = [
        (
            f"{name} *" if name == settings.default_profile else name,
            ", ".join(profile.sources_on),
            profile.max_total_items,
            profile.render_budget_tokens,
            profile.description,
        )
        for name, profile in profiles.items()
    ]
    console().print(table(("profile (* default)", "sources", "items", "tokens", "for what"), rows))


@app.command("show")
def show_profile(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A profile's name, or a YAML file.")] = None,
    content_hash: Annotated[
        str | None,
        typer.Option("--hash", metavar="HASH", help="One that a worker has served: `profile_hash` of a decision."),
    ] = None,
    data: DataFolder = None,
    as_json: JsonFlag = False,
) -> int:
    """One profile with every value written out, as YAML that can be used as it is.

    Example: `orion-recall profiles show reflect.v1 > mine.v1.yaml`
    """
    if (name is None) == (content_hash is None):
        raise SettingsError("name a profile, or give --hash, and not both")
    if content_hash is not None:
        return _show_served(content_hash, find(data), as_json=as_json)
    profile = named_profile(name or "")
    if as_json:
        print_json({**profile.model_dump(mode="json"), "hash": profile.content_hash})
    else:
        print(dump_profile(profile), end="")
    return 0


def _show_served(content_hash: str, settings: Settings, *, as_json: bool) -> int:
    """The text behind a hash, as the worker that served it wrote it down."""

    async def get() -> str | None:
        async with open_postgres(settings) as pool:
            return await profile_text(pool, content_hash)

    text = asyncio.run(get())
    if text is None:
        print_error("NotFound", f"no worker has served a profile with the hash {content_hash!r}", as_json=as_json)
        return 1
    if as_json:
        print_json({"hash": content_hash, "text": text})
    else:
        print(text, end="")
    return 0


@app.command("check")
def check_profiles(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Default: all in use.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Whether profile files can be used: every problem with its line and what to write instead.

    Example: `orion-recall profiles check mine.v1.yaml`
    """
    good: list[Profile] = []
    problems: list[ProfileProblem] = []
    if files:
        for file in files:
            try:
                good.append(load_profile(file))
            except ProfileError as error:
                problems += error.problems
    else:
        try:
            good += load_profiles(_folder(Settings.read())).values()
        except ProfileError as error:
            problems += error.problems
    if as_json:
        names = ("file", "line", "column", "key", "message", "hint")
        listed = [{name: getattr(problem, name) for name in names} for problem in problems]
        print_json({"ok": not problems, "profiles": [one.profile for one in good], "problems": listed})
    else:
        for problem in problems:
            console().print(Text(visible(problem)), soft_wrap=True)
        note(counted(len(problems), "problem") if problems else f"ok: {', '.join(map(_checked, good))}")
    return 1 if problems else 0


@app.command("diff")
def compare_profiles(
    left: Annotated[str, typer.Argument(metavar="A", help="A profile's name, or a YAML file.")],
    right: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    as_json: JsonFlag = False,
) -> None:
    """The values in which two profiles differ.

    Example: `orion-recall profiles diff reflect.v1 mine.v1.yaml`
    """
    differences = diff_profiles(named_profile(left), named_profile(right))
    found = [one for one in differences if one.key not in ("profile", "description")]
    if as_json:
        listed = [{"key": one.key, "left": one.left, "right": one.right} for one in found]
        print_json({"left": left, "right": right, "differences": listed})
    elif found:
        console().print(
            table(("key", left, right), [(one.key, _word(one.left), _word(one.right)) for one in found])
        )
    else:
        note("no difference")


def _checked(profile: Profile) -> str:
    """The name, and what else is recalled by it than the name says."""
    strategies, shadow = profile.strategies.model_dump(), profile.shadow
    told = [f"strategies for {' and '.join(strategies)}"] if strategies else []
    told += [f"{shadow.profile} in the shadow of {shadow.share:.0%}"] if shadow.profile else []
    canary = profile.canary
    told += [f"canary {canary.profile} of {canary.steps[0]:.0%} first"] if canary.profile else []
    return f"{profile.profile} ({'; '.join(told)})" if told else profile.profile


def _word(value: object) -> str:
    return "null" if value is None else visible(value)


def _folder(settings: Settings) -> Path:
    return settings.profiles_dir or shipped_folder("profiles")


def named_profile(name: str) -> Profile:
    """The profile of that name, or in that file."""
    if _is_file(name):
        return load_profile(Path(name))
    profiles = load_profiles(_folder(Settings.read()))
    if name not in profiles:
        raise SettingsError(f"{name!r} is no profile; there are {', '.join(sorted(profiles))}")
    return profiles[name]


def profile_file(name: str, settings: Settings) -> Path:
    """The file of a profile that there is: a name, or the file itself."""
    if _is_file(name):
        return Path(name)
    found = [path for ending in ("yaml", "yml") if (path := _folder(settings) / f"{name}.{ending}").is_file()]
    if not found:
        raise SettingsError(f"{name!r} is no profile that has a file in {_folder(settings)}")
    return found[0]


def _is_file(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))
