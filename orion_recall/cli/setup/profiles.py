"""`orion-recall profiles`: lists, shows and checks profiles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orion_recall.cli.output import counted, group, listed, print_json, show, wants_json
from orion_recall.errors import ProfileError, ProfileProblem, SettingsError
from orion_recall.profile import Profile
from orion_recall.profile.reading import dump_profile, load_profile, load_profiles
from orion_recall.profile.watch import profiles_folder
from orion_recall.settings import Settings

app = group("""Look at profiles and check them.

    The profiles are those of ORION_PROFILES_DIR, or else the shipped ones. To make your own: copy example.yaml,
    name the copy after its profile, and check it.

    Example: `orion-recall profiles check mine/*.yaml`
    """)


@app.command("list")
def list_profiles() -> None:
    """Every profile with its sources and limits.

    Example: `orion-recall profiles list`
    """
    settings = Settings.read()
    profiles = load_profiles(profiles_folder(settings))
    further = {"max_total_items", "render_budget_tokens", "description"}
    told = [
        {"profile": name, "default": name == settings.default_profile, "sources": one.sources_on,
         "hash": one.content_hash, **one.model_dump(mode="json", include=further)}
        for name, one in profiles.items()
    ]  # fmt: skip
    columns = ("profile (* default)", "sources", "items", "tokens", "for what")
    rows = [
        (f"{name}{' *' * (name == settings.default_profile)}", ", ".join(one.sources_on), one.max_total_items,
         one.render_budget_tokens, one.description)
        for name, one in profiles.items()
    ]  # fmt: skip
    listed({"folder": str(profiles_folder(settings)), "profiles": told}, columns, rows)


@app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A profile's name, or a YAML file.")],
) -> None:
    """One profile with every value written out, as YAML that can be used as it is.

    One that a worker has served: `decisions sql "SELECT text FROM recall_profiles WHERE hash = 'HASH'"`.

    Example: `orion-recall profiles show reflect.v1 > mine.v1.yaml`
    """
    profile = named_profile(name)
    if wants_json():
        print_json({**profile.model_dump(mode="json"), "hash": profile.content_hash})
    else:
        print(dump_profile(profile), end="")


@app.command("check")
def check_profiles(
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="Default: all in use.")] = None,
) -> int:
    """Whether profile files can be used: every problem with its line and what to write instead.

    Example: `orion-recall profiles check mine.v1.yaml`
    """
    good: list[Profile] = []
    problems: list[ProfileProblem] = []
    for file in files or [None]:
        try:
            good += [load_profile(file)] if file else load_profiles(profiles_folder(Settings.read())).values()
        except ProfileError as error:
            problems += error.problems
    names = ("file", "line", "column", "key", "message", "hint")
    told = [{name: getattr(problem, name) for name in names} for problem in problems]
    value = {"ok": not problems, "profiles": [one.profile for one in good], "problems": told}
    verdict = counted(len(problems), "problem") if problems else f"ok: {', '.join(map(_checked, good))}"
    show(value, *map(str, problems), remarks=[verdict])
    return 1 if problems else 0


def _checked(profile: Profile) -> str:
    strategies = profile.strategies.model_dump()
    told = [f"strategies for {' and '.join(strategies)}"] if strategies else []
    for how, trial in (("in the shadow", profile.shadow), ("as a canary", profile.canary)):
        told += [f"{trial.profile} {how} of {trial.share:.0%}"] if trial.profile else []
    return f"{profile.profile} ({'; '.join(told)})" if told else profile.profile


def named_profile(name: str) -> Profile:
    """The profile of that name, or in that file."""
    if name.endswith((".yaml", ".yml")):
        return load_profile(Path(name))
    profiles = load_profiles(profiles_folder(Settings.read()))
    if name not in profiles:
        raise SettingsError(f"{name!r} is no profile; there are {', '.join(sorted(profiles))}")
    return profiles[name]
