"""Memory text as data in a prompt: changes what could pose as another part of it, such as role words and headings.

A text cannot be kept from saying "ignore your instructions". It can be kept from looking as if somebody else said
so: a message of the system, a heading of the prompt, the end of the memories. What is changed looks nearly the
same.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from orion_recall.text.normal import one_line, visible, without_markup

COLON: Final = "\N{RATIO}"
HASH: Final = "\N{MUSIC SHARP SIGN}"

# Who speaks in the formats of chats and prompts, in the languages that are written most.
_ROLES: Final = """system sistema système systeme assistant asistente assistente assistent assistante user usuario
    usuário utilisateur benutzer nutzer human developer tool function instruction instructions instrucciones
    anweisung anweisungen response prompt ai model bot chatbot gpt chatgpt llm observation admin administrator
    operator 系统 系統 助手 用户 用戶 指令 システム ユーザー アシスタント
    система ассистент пользователь инструкция 시스템 사용자 어시스턴트 النظام المستخدم المساعد सिस्टम""".split()
# Letters of other scripts that look like Latin ones, small capitals, and letters in boxes and circles.
_LOOK_ALIKE: Final = dict(
    zip("аеорсухѕіјһԁѵАВЕКМНОРСТХЅІЈοανρΑΒΕΗΙΚΜΝΟΡΤΧΥ", "aeopcyxsijhdvABEKMHOPCTXSIJoavpABEHIKMNOPTXY", strict=True)
) | dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "abcdefghijklmnoprstuvwyz", strict=True))
_BOXED: Final = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)
_COLONS: Final = "：﹕︓︰ː˸։׃܃܄⁚"
_WIDTHS: Final = (
    (0xFF01, 0xFF5E), (0xFE50, 0xFE6B), (0x1D400, 0x1D7FF), (0x24B6, 0x24E9), (0x2100, 0x214F), (0x2070, 0x209C),
    (0x1D2C, 0x1D6A), (0x2B0, 0x2B8),
)  # fmt: skip


_PLAIN: Final = {
    code: unicodedata.normalize("NFKC", chr(code)) for first, last in _WIDTHS for code in range(first, last + 1)
}
# Every letter and sign that looks like one of ASCII, to that one: the places of a text stay what they are.
_FOLDED: Final = (
    {ord(one): other for one, other in _LOOK_ALIKE.items()}
    | {first + place: chr(ord("A") + place) for first in _BOXED for place in range(26)}
    | {ord(one): ":" for one in _COLONS}
    | {code: plain for code, plain in _PLAIN.items() if len(plain) == 1 and plain.isascii()}
)
# The roles as they are written, and as they are after folding.
_ROLE_WORDS: Final = "|".join(
    sorted({re.escape(form) for role in _ROLES for form in (role, role.translate(_FOLDED))})
)
_ROLE: Final = re.compile(
    rf"(?<!\w)(?:{_ROLE_WORDS})(?:\s(?:message|prompt|instructions?|note|turn))?"
    r"(?:\s?\([^()\n]{0,30}\))?[^\w\s:]{0,4}\s{0,4}(?P<sign>:(?:\W{0,8}:)?)",
    re.IGNORECASE,
)
# A key of JSON begins no message.
_KEY: Final = re.compile(r'"\w+"\s*:')
_HEADING: Final = re.compile(r"##+|^\s*#(?=\s)", re.MULTILINE)
_FENCE: Final = re.compile(r"(?P<sign>['\"~=_*+-])(?P=sign){2,}")
_MOST_KEPT_CHARS: Final = 4000
_FENCES: Final = tuple(3 * sign for sign in "'\"~=_*+-")


def folded(text: str) -> str:
    """The text with ASCII letters for those that look like them, of the same length."""
    return text if text.isascii() else text.translate(_FOLDED)


def inert(text: str) -> str:
    """The text on one line, as `one_line` gives it, without what could pose as another part of a prompt.

    The colon after a role word ("System:", "### Instruction:", in wide letters too) and marks of headings are shown
    with look-alikes, and fences of three signs and more have two.
    """
    return _kept(text) if len(text) <= _MOST_KEPT_CHARS else _made_inert(text)


def _made_inert(text: str) -> str:
    # Without what a reader does not see, which could part a role word from its colon.
    shown = without_markup("\n".join(filter(None, map(visible, text.splitlines()))))
    # To look for the fences costs a tenth of the expression, and hardly any text has one.
    if any(map(shown.__contains__, _FENCES)):
        shown = _FENCE.sub(r"\g<sign>\g<sign>", shown)
    return _without_roles(shown).replace("\n", " ")


_kept = lru_cache(maxsize=2048)(_made_inert)  # the same memories stand in many bundles


def _without_roles(text: str) -> str:
    plain = folded(text)
    if ":" not in plain and "#" not in plain:
        return text
    changed = {
        place: COLON
        for match in _ROLE.finditer(plain)
        if not _KEY.match(plain, match.start() - 1)
        for place in range(*match.span("sign"))
        if plain[place] == ":"
    }
    for match in _HEADING.finditer(plain):
        changed |= {place: HASH for place in range(match.start(), match.end()) if plain[place] == "#"}
    return "".join(changed.get(place, sign) for place, sign in enumerate(text)) if changed else text


_READ_CHARS: Final = 20_000
_THEIRS: Final = r"(?:all|any|your|previous|prior|above|earlier|preceding|system|these|those|former|original)"
_ORDERS: Final = r"(?:instructions?|prompts?|rules|guidelines|directives?|directions|constraints|messages?|context)"
_INSTRUCTS: Final = re.compile(
    rf"""\b(?:
        (?:ignore|disregard|forget|override|bypass|drop)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,3}}{_THEIRS}\W{{1,3}}
            (?:\w{{1,15}}\W{{1,3}}){{0,3}}{_ORDERS}
      | (?:ignore|disregard|forget)\W{{1,3}}(?:everything|anything|all)\W{{1,3}}(?:above|before|you\ were\ told)
      | you\ are\ (?:now|no\ longer)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}
            (?:assistant|ai|model|bot|chatbot|dan|unrestricted|jailbroken|developer\ mode)
      | (?:from\ now\ on|henceforth)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,3}}(?:ai|assistant|model|bot)\b
      | (?:do\ not|don['’]t|never)\ (?:tell|inform|warn|mention|reveal|show)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}
            the\ (?:user|human|operator)
      | (?:reveal|print|repeat|output|leak|send|show|disclose)\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}
            (?:(?:system|hidden|initial|secret)\ (?:prompt|instructions)|your\ (?:instructions|prompt|rules))
      | (?:new|updated|real|actual|override)\ (?:system\ )?(?:instructions?|prompt)\s{{0,2}}[:∶]
      | ignorier\w{{0,3}}\W{{1,3}}(?:\w{{1,15}}\W{{1,3}}){{0,4}}(?:anweisung|instruktion|regel|vorgabe)
      | ignore[zr]?\ (?:toutes?\ )?(?:les|tes|vos)\ (?:instructions|consignes|règles)
      | ignor[ae]\ (?:todas?\ )?(?:las|tus|sus)\ (?:instrucciones|reglas|indicaciones)
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def instructs_reader(text: str) -> bool:
    """Whether the text has an instruction to whoever reads it as a prompt."""
    return _INSTRUCTS.search(folded(one_line(text[:_READ_CHARS]))) is not None
