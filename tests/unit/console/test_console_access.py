from __future__ import annotations

import os
from pathlib import Path

import pytest

from orion_recall.console.access import TokenFile, new_token, read_tokens, token_hash
from orion_recall.errors import SettingsError


def entry(token: str, name: str = "ana", tenant: str = "default", may: str = '["recall"]') -> str:
    return f'[[tokens]]\nname = "{name}"\nsha256 = "{token_hash(token)}"\ntenant = "{tenant}"\nmay = {may}\n'


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "tokens.toml"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def test_a_token_gives_its_tenant_and_its_rights_and_another_one_nothing(tmp_path: Path) -> None:
    token = new_token()
    tokens = TokenFile(written(tmp_path, entry(token)))
    access = tokens.holder(token)
    assert access is not None
    assert (access.name, access.only_tenant, access.may("recall"), access.may("delete")) == (
        "ana",
        "default",
        True,
        False,
    )
    assert access.sees("default")
    assert not access.sees("other")
    assert not access.sees(None)
    assert tokens.holder(new_token()) is None
    assert tokens.holder("") is None
    assert tokens.holder(token_hash(token)) is None


def test_the_tenant_star_is_all_of_them(tmp_path: Path) -> None:
    token = new_token()
    access = TokenFile(written(tmp_path, entry(token, tenant="*"))).holder(token)
    assert access is not None
    assert access.only_tenant is None
    assert access.sees("any")


def test_a_token_that_is_taken_out_of_the_file_counts_no_more(tmp_path: Path) -> None:
    first, second = new_token(), new_token()
    path = written(tmp_path, entry(first) + entry(second, "bo"))
    tokens = TokenFile(path)
    assert tokens.of_key(token_hash(second)) is not None
    written(tmp_path, entry(first))
    assert tokens.of_key(token_hash(second)) is None
    assert tokens.holder(second) is None
    assert tokens.holder(first) is not None


def test_a_file_that_can_be_read_no_more_lets_nobody_in(tmp_path: Path) -> None:
    token = new_token()
    path = written(tmp_path, entry(token))
    tokens = TokenFile(path)
    path.write_text("[[tokens]", "utf-8")
    assert tokens.holder(token) is None
    path.unlink()
    assert tokens.of_key(token_hash(token)) is None


def test_rights_of_the_file_that_change_alone_are_noticed_both_ways(tmp_path: Path) -> None:
    token = new_token()
    path = written(tmp_path, entry(token))
    tokens = TokenFile(path)
    path.chmod(0o666)
    assert tokens.holder(token) is None
    path.chmod(0o600)
    assert tokens.holder(token) is not None


def test_a_file_of_the_same_length_and_time_is_read_again(tmp_path: Path) -> None:
    first, second = new_token(), new_token()
    path = written(tmp_path, entry(first))
    tokens, before = TokenFile(path), path.stat()
    path.write_text(entry(second), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert tokens.holder(first) is None
    assert tokens.holder(second) is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "list of"),
        ("tokens = []", "list of"),
        ("[[tokens]", "cannot be read"),
        ('[[tokens]]\nname = "ana"', "give may, name, sha256, tenant"),
        (entry("t", may='["everything"]'), "may is a list of"),
        (entry("t", may='"recall"'), "may is a list of"),
        (entry("t", tenant=""), "name and tenant are text"),
        (entry("t").replace(token_hash("t"), "t"), "64 hex digits"),
        (entry("t") + entry("t", "bo"), "there already"),
        (entry("t") + entry("u"), "there already"),
        (entry("t") + "port = 1", "nothing else"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        read_tokens(written(tmp_path, text))


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="others can write"):
        read_tokens(written(tmp_path, entry("t"), 0o666))


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(len(token) >= 43 for token in tokens)
