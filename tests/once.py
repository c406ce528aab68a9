"""What a run has to find out once, and would find out again for each test."""

import os
import ssl
from functools import cache
from typing import Any

from httpx._transports import default

from jobfarm.middleware import StaticFiles


def in_place_of_each_time() -> None:
    """Remember static files and certificates for the life of this process."""
    _static_files()
    _certificates()


def _static_files() -> None:
    """Each client of a test is a site of its own to Django, and would walk through every folder of static files anew,
    in 20 ms: all who look for the same files have what the first one found."""
    look, found = StaticFiles.add_files_from_finders, dict[tuple[Any, ...], dict[str, Any]]()

    def remember(self: StaticFiles) -> None:
        given = (self.static_root, self.static_prefix, self.max_age)
        if given not in found:
            look(self)
            found[given] = dict(self.files)
        self.files.update(found[given])

    StaticFiles.add_files_from_finders = remember


def _certificates() -> None:
    """httpx reads the certificates of 140 authorities anew for each client, in 30 ms of a processor, also for one that
    calls a server without TLS; and `httpx.get` is a client. All who ask for the usual ones share them."""
    read = default.create_ssl_context

    @cache
    def usual(*_: str | None) -> ssl.SSLContext:
        return read()

    def shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is True and cert is None and trust_env:
            return usual(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return read(verify, cert, trust_env)

    default.create_ssl_context = shared
