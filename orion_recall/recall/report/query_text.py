"""The query text in the decision log: in full, as a hash that groups equal texts, or not at all."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from orion_recall.errors import InvalidMessage, MessageError
from orion_recall.settings import Settings
from orion_recall.text.redaction import NO_REDACTION, Redaction

QUERY_CHARS = 4000
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptText:
    """The query text in its kept form.

    The hash is BLAKE2b (RFC 7693) of the whole text as it was sent. Without a key, anybody can check a guessed text
    against the hash; with a key, which all workers share, only those with the key can.
    """

    mode: Literal["full", "hash", "none"] = "full"
    key: bytes = field(default=b"", repr=False)
    redaction: Redaction = NO_REDACTION

    @classmethod
    def of(cls, settings: Settings) -> KeptText:
        """As the settings say."""
        secret = settings.query_hash_key
        # A key may have 64 bytes; a secret of any length becomes one.
        key = hashlib.blake2b(secret.get_secret_value().encode()).digest() if secret else b""
        return cls(mode=settings.query_text, key=key, redaction=Redaction.at("log", settings.redact))

    @property
    def is_full(self) -> bool:
        """Whether text is kept as it is."""
        return self.mode == "full"

    def query(self, text: str) -> str:
        """The text, cut; or its hash; or "". A text that is not there has no hash."""
        if self.mode == "full":
            return self.redaction.text(text[:QUERY_CHARS])
        return self._hash(text) if self.mode == "hash" and text else ""

    def intent(self, text: str | None) -> str | None:
        """The same for the words that came along with the query."""
        if self.mode == "full" or not text:
            return self.redaction.optional(text) if self.mode == "full" else text
        return self._hash(text) if self.mode == "hash" else None

    def keeps(self, text: str | None) -> bool:
        """Whether nothing in a text is redacted."""
        return not self.redaction.kinds or text is None or self.redaction.text(text) == text

    def error(self, error: MessageError) -> str:
        """What was wrong with a message, without quoting it where its text is not kept."""
        if self.is_full or not isinstance(error, InvalidMessage):
            return self.redaction.text(str(error))
        return error.without_values

    def _hash(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode("utf-8", "replace"), key=self.key, digest_size=_DIGEST_BYTES)
        return f"blake2b:{digest.hexdigest()}"
