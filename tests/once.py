"""What a run has to find out once, and would find out again for each test."""

import os
import ssl
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

from jobfarm.middleware import StaticFiles

CLIENTS: Final = ("httpx", "httpx2")  # the second is that of newer versions of openai


def in_place_of_each_time() -> None:
    """Remember static files and certificates for the life of this process."""
    _static_files()
    for name in CLIENTS:
        with suppress(ModuleNotFoundError):
            _certificates(import_module(f"{name}._transports.default"))


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


def _certificates(transports: Any) -> None:
    """A client reads the certificates of 140 authorities anew, in 30 ms of a processor, also one that calls a server
    without TLS; and `httpx.get` is a client. All who ask for the usual ones share them."""
    read = transports.create_ssl_context

    @cache
    def usual(*_: str | None) -> ssl.SSLContext:
        context: ssl.SSLContext = read()
        return context

    def shared(verify: Any = True, cert: Any = None, trust_env: bool = True) -> Any:
        if verify is True and cert is None and trust_env:
            return usual(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return read(verify, cert, trust_env)

    transports.create_ssl_context = shared
