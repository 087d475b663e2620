from __future__ import annotations

import hashlib

from orion_recall.errors import InvalidMessage, RefusedMessage
from orion_recall.recall.report.query_text import QUERY_CHARS, KeptText
from orion_recall.settings import Settings

TEXT = "what did my doctor say?"


def kept(mode: str, key: str | None = None) -> KeptText:
    return KeptText.of(Settings.read(query_text=mode, query_hash_key=key))


def test_a_hash_is_that_of_the_whole_text_and_says_which_it_is() -> None:
    digest = hashlib.blake2b(TEXT.encode(), digest_size=16).hexdigest()
    assert kept("hash").query(TEXT) == f"blake2b:{digest}"
    long = "a" * (QUERY_CHARS + 1)
    assert kept("hash").query(long) != kept("hash").query(long + "a")
    assert kept("full").query(long) == long[:-1]


def test_with_a_key_the_hash_is_another_and_equal_texts_stay_equal() -> None:
    assert len({kept("hash", key).query(TEXT) for key in (None, "k", "k" * 200, "k" * 201)}) == 4
    assert kept("hash", "k").query(TEXT) == kept("hash", "k").query(TEXT)
    assert kept("hash", "").query(TEXT) == kept("hash", None).query(TEXT), "an empty secret is none"


def test_a_text_that_is_not_there_has_no_hash() -> None:
    assert (kept("hash").query(""), kept("hash").intent(None), kept("hash").intent("")) == ("", None, "")


def test_text_that_is_no_unicode_has_a_hash() -> None:
    assert kept("hash").query("lone \ud800").startswith("blake2b:")


def test_errors_quote_messages_only_where_their_text_is_kept() -> None:
    error = InvalidMessage("fragment: no (got 'x')", without_values="fragment: no")
    assert (kept("full").error(error), kept("hash").error(error)) == ("fragment: no (got 'x')", "fragment: no")
    assert kept("none").error(RefusedMessage("not here")) == "not here"


def test_a_key_does_not_show() -> None:
    settings = Settings.read(query_text="hash", query_hash_key="hunter2")
    assert "hunter2" not in f"{settings!r} {settings.model_dump_json()} {KeptText.of(settings)!r}"
    assert str(KeptText.of(settings).key) not in repr(KeptText.of(settings))


def test_what_is_kept_is_redacted_where_the_settings_say_so() -> None:
    settings = Settings.read(redact=("log:email",))
    kept = KeptText.of(settings)
    assert kept.query("Who is ana@example.org?") == "Who is ‹e-mail address›?"
    assert kept.intent("ana@example.org") == "‹e-mail address›"
    assert kept.intent(None) is None
    assert kept.error(InvalidMessage("payload.x: 'ana@example.org'")) == "payload.x: '‹e-mail address›'"
    assert KeptText.of(Settings.read(redact=("render:all",))).query("a@example.org") == "a@example.org"
