"""A certificate authority of one's own, and what it has signed, as files that any server can be given."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import trustme

Shown = Literal["server", "misnamed", "expired", "foreign"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Paths of PEM files. `server` is for `localhost` and 127.0.0.1, `misnamed` for a server of another name.

    `expired` was for the same as `server`. `stranger` is another authority, `foreign` what it says of the server.
    """

    ca: Path
    server: Path
    server_key: Path
    misnamed: Path
    misnamed_key: Path
    expired: Path
    expired_key: Path
    foreign: Path
    foreign_key: Path
    client: Path
    client_key: Path
    stranger: Path

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """New ones, in the folder."""
        ours, theirs = trustme.CA(), trustme.CA()
        paths = {name: folder / f"{name}.pem" for name in cls.__slots__}
        ours.cert_pem.write_to_path(paths["ca"])
        theirs.cert_pem.write_to_path(paths["stranger"])
        past = datetime(2020, 1, 1, tzinfo=UTC)
        for name, identity, authority, until in (
            ("server", ("localhost", "127.0.0.1"), ours, None),
            ("misnamed", ("elsewhere",), ours, None),
            ("expired", ("localhost", "127.0.0.1"), ours, past),
            ("foreign", ("localhost", "127.0.0.1"), theirs, None),
            ("client", ("orion",), ours, None),
        ):
            issued = authority.issue_cert(*identity, common_name=identity[0], not_after=until)
            key = paths[f"{name}_key"]
            key.touch(mode=0o600)
            issued.private_key_pem.write_to_path(key)
            for pem in issued.cert_chain_pems:
                pem.write_to_path(paths[name], append=True)
        return cls(**paths)

    def server_context(
        self, *, ask_clients: bool = False, misnamed: bool = False, shown: Shown | None = None
    ) -> ssl.SSLContext:
        """For a server in Python; with `ask_clients` it takes only clients with a certificate of the authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        name = shown or ("misnamed" if misnamed else "server")
        context.load_cert_chain(getattr(self, name), getattr(self, f"{name}_key"))
        context.verify_mode = ssl.CERT_REQUIRED if ask_clients else ssl.CERT_NONE
        return context
