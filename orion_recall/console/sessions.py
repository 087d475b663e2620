"""Sessions of the console: signed cookies, and the tokens that every form carries against forged requests.

Nothing is kept: a cookie holds the key of the visitor's access and a time, signed with a key of this process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

LIFETIME_S = 12 * 3600


class Sessions:
    """Makes and reads the cookies of one running console."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def cookie(self, key: str) -> str:
        """The cookie of a visitor who has just come in."""
        told = f"{key.encode().hex()}.{int(time.time())}"
        return f"{told}.{self._signed('session', told)}"

    def key_of(self, cookie: str) -> str | None:
        """The key in a cookie; None where we did not make it, or too long ago."""
        told, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed("session", told).encode()):
            return None
        key, _, began = told.partition(".")
        if time.time() - int(began) > LIFETIME_S:
            return None
        return bytes.fromhex(key).decode()

    def form_token(self, key: str) -> str:
        """What every form of this visitor carries: another site cannot read it, and so cannot send it."""
        return self._signed("form", key)

    def is_form_token(self, key: str, given: str) -> bool:
        """Whether a form was made by this console, for this visitor."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.form_token(key).encode())

    def _signed(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}\0{text}".encode(), hashlib.sha256).hexdigest()
