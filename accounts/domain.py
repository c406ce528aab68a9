"""Secrets that are shown once and kept only as a hash."""

import hashlib

KEY_PREFIX = "jft_"  # so that a leaked key says what it opens, and scanners of repositories can look for it
HINT_LENGTH = 8  # four of the prefix and four that tell one's own tokens apart: 24 of 256 bits given away
NAME_LIMIT = 100


def hashed(secret: str) -> str:
    """The SHA-256 of a secret, as 64 hexadecimal digits: what is stored and looked up.

    Fast and without salt on purpose. Slow hashes protect secrets that people choose; ours are 256 random
    bits, which nobody guesses, and they are checked at every call. Any text is taken, also one that no UTF-8
    can hold.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def hint(key: str) -> str:
    """How a key begins: enough for its owner to recognise it, useless to anybody else."""
    return key[:HINT_LENGTH]


def is_name(name: str) -> bool:
    """Whether a token may be called so: 1 to 100 printable characters that are not all spaces."""
    return 0 < len(name) <= NAME_LIMIT and name.isprintable() and not name.isspace()
