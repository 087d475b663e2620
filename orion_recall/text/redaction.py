"""Redaction: replaces addresses, phone and payment numbers, and keys in a text by what they were.

Rules, not certainty: a number in an unusual form stays, and a number that looks like a telephone's may be none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, cast, get_args

RedactedKind = Literal["key", "card", "email", "phone"]
RedactionPlace = Literal["store", "render", "log"]
KINDS: Final[tuple[RedactedKind, ...]] = get_args(RedactedKind)
PLACES: Final[tuple[RedactionPlace, ...]] = get_args(RedactionPlace)
ALL: Final = "all"
REPLACEMENTS: Final[Mapping[RedactedKind, str]] = {
    "key": "‹key›", "card": "‹card number›", "email": "‹e-mail address›", "phone": "‹phone number›",
}  # fmt: skip

_EMAIL: Final = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?!\w)")
_CARD: Final = re.compile(r"(?<![\d.+-])\d(?:[ -]?\d){12,18}(?!\d)")
_PHONE: Final = re.compile(
    r"""(?<![\w.:/+-])(?:
        (?:\+|00)\ ?[1-9](?:[ ().\-/]{0,2}\d){6,13}
      | \(?0\d{1,4}\)?(?:[ .\-/]{0,2}\d){5,10}
      | \(?\d{3}\)?[ .-]{1,2}\d{3}[ .-]\d{4}
    )(?![\w-]?\d)""",
    re.VERBOSE,
)
_DATE: Final = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
_KEY: Final = re.compile(
    r"""-{2,5}BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-{2,5}
        (?:(?!-{2,5}BEGIN\ ).){0,8000}?(?:-{2,5}END\ [A-Z ]{0,30}PRIVATE\ KEY-{2,5}|(?=-{2,5}BEGIN\ )|\Z)
      | \beyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]{8,1000}
      | \b(?:sk|pk|rk)[-_][\w-]{16,200} | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b | \bAIza[\w-]{30,40}
      | \bgh[pousr]_\w{20,100} | \bgithub_pat_\w{20,120} | \bglpat-[\w-]{16,60} | \bxox[abeprs]-[\w-]{10,100}
      | \bhf_\w{20,60} | \bnpm_\w{20,60} | \bpypi-[\w-]{20,250}""",
    re.VERBOSE | re.DOTALL,
)
# A value that is told to be a secret; it has a digit or is long, for "the password is correct" tells none.
_TOLD: Final = re.compile(
    r"""\b(?:(?:api|access|secret)[ _-]?key|secret|auth[ _-]?token|token|bearer|password|passwd|passphrase|pwd)
    ["']?(?:\s{0,2}[=:∶]|\ is|\ ist|(?<=bearer))\s{0,2}["']?(?P<value>[^\s"',;]{6,300})""",
    re.IGNORECASE | re.VERBOSE,
)
_LONG_SECRET: Final = 20
_FEWEST_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Redaction:
    """What is redacted in one place; of nothing, a text stays the very same."""

    kinds: frozenset[RedactedKind] = frozenset()

    @classmethod
    def at(cls, place: RedactionPlace, rules: Sequence[str]) -> Redaction:
        """The redaction of a place by rules as `store:key`, `log:all`."""
        return _at(place, tuple(rules))

    def text(self, text: str) -> str:
        for kind in KINDS if self.kinds else ():
            if kind in self.kinds:
                text = _REDACTED[kind](text)
        return text

    def optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def json(self, value: Any, *, without: frozenset[str] = frozenset()) -> Any:
        """A JSON value with all its texts redacted, but those under the names `without`, and names themselves."""
        if not self.kinds:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            pairs = cast("Mapping[str, Any]", value).items()
            return {name: one if name in without else self.json(one, without=without) for name, one in pairs}
        if isinstance(value, list | tuple):
            return [self.json(one, without=without) for one in cast("Sequence[Any]", value)]
        return value


NO_REDACTION: Final = Redaction()


@lru_cache(maxsize=64)
def _at(place: RedactionPlace, rules: tuple[str, ...]) -> Redaction:
    wanted = {kind for where, _, kind in (rule.partition(":") for rule in rules) if where == place}
    return Redaction(frozenset(KINDS if ALL in wanted else [kind for kind in KINDS if kind in wanted]))


def check_rules(rules: tuple[str, ...]) -> tuple[str, ...]:
    """The rules; ValueError for one that is none."""
    for rule in rules:
        where, _, kind = rule.partition(":")
        if where not in PLACES or kind not in (*KINDS, ALL):
            raise ValueError(
                f"{rule!r} is no rule: write {', '.join(PLACES)}, a colon, and {', '.join(KINDS)} or {ALL}, as "
                "store:key,log:all"
            )
    return rules


def _without_value(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith(REPLACEMENTS["key"]) or not (len(value) >= _LONG_SECRET or any(map(str.isdigit, value))):
        return match[0]
    return match[0].removesuffix(value) + REPLACEMENTS["key"]


def _has_check_digit(number: str) -> bool:
    """Whether the digits pass the check of Luhn (ISO/IEC 7812-1), as those for payments do."""
    digits = [int(one) for one in number if one.isdigit()]
    doubled = [2 * one - 9 * (one > 4) for one in digits[-2::-2]]
    return sum(digits[-1::-2], sum(doubled)) % 10 == 0 and any(digits)


def _is_phone(number: str) -> bool:
    return sum(map(str.isdigit, number)) >= _FEWEST_DIGITS and _DATE.fullmatch(number) is None


_REDACTED: Final[Mapping[RedactedKind, Callable[[str], str]]] = {
    "key": lambda text: _TOLD.sub(_without_value, _KEY.sub(REPLACEMENTS["key"], text)),
    "card": lambda text: _CARD.sub(lambda one: REPLACEMENTS["card"] if _has_check_digit(one[0]) else one[0], text),
    "email": lambda text: _EMAIL.sub(REPLACEMENTS["email"], text),
    "phone": lambda text: _PHONE.sub(lambda one: REPLACEMENTS["phone"] if _is_phone(one[0]) else one[0], text),
}
