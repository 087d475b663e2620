"""A certificate authority of one's own, and what it has signed, as files that any server can be given."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Paths of PEM files. `server` is for `localhost` and 127.0.0.1, `misnamed` for a server of another name.

    `stranger` is another authority.
    """

    ca: Path
    server: Path
    server_key: Path
    misnamed: Path
    misnamed_key: Path
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
        for name, identity in (
            ("server", ("localhost", "127.0.0.1")),
            ("misnamed", ("elsewhere",)),
            ("client", ("orion",)),
        ):
            issued = ours.issue_cert(*identity, common_name=identity[0])
            key = paths[f"{name}_key"]
            key.touch(mode=0o600)
            issued.private_key_pem.write_to_path(key)
            for pem in issued.cert_chain_pems:
                pem.write_to_path(paths[name], append=True)
        return cls(**paths)

    def server_context(self, *, ask_clients: bool = False, misnamed: bool = False) -> ssl.SSLContext:
        """For a server in Python; with `ask_clients` it takes only clients with a certificate of the authority."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.ca))
        pair = (self.misnamed, self.misnamed_key) if misnamed else (self.server, self.server_key)
        context.load_cert_chain(*pair)
        context.verify_mode = ssl.CERT_REQUIRED if ask_clients else ssl.CERT_NONE
        return context
