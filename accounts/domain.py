"""Secrets that are shown once and kept only as a hash; and what things may be called."""

import hashlib
import unicodedata
from collections.abc import Iterable
from random import Random

from confusable_homoglyphs import categories

KEY_PREFIX = "jft_"  # so that a leaked key names what it opens, and scanners of repositories can look for it
# What an API token may do, as OAuth writes it (RFC 6749, section 3.3). submit: send in jobs; read: look at all that its
# person may see; operate: cancel, retry, run now; endpoints: say where the farm posts events and alerts to.
SCOPES = ("submit", "read", "operate", "endpoints")
# What the audit log says of people; the last three are lines of Django's own log.
EVENTS = {
    "log_in": "Somebody logged in.",
    "log_in_failed": "A log-in failed: a wrong password, code, link or answer of a provider.",
    "log_out": "Somebody logged out, or ended a session of theirs.",
    "password_changed": "A password was changed, set or reset.",
    "second_factor_added": "Somebody has another second factor.",
    "second_factor_removed": "A second factor was taken away.",
    "account_connected": "Somebody connected an account of theirs at an identity provider.",
    "account_removed": "The connection to an account at an identity provider was removed.",
    "token_created": "An API token was created.",
    "token_revoked": "An API token was revoked.",
    "token_from_new_address": "An API token was used from an address for the first time.",
    "link_created": "A one-time log-in link was created.",
    "rights_changed": "Rights of somebody or of a group were changed, or somebody was switched on or off.",
    "groups_changed": "Somebody came into groups or out of them.",
    "added": "Somebody of staff added something.",
    "changed": "Somebody of staff changed something.",
    "deleted": "Somebody of staff deleted something.",
}
ADDRESSES_LIMIT = 50  # from which a token is known to come; from a token of more no other is noted
LONGEST_DAYS = 3650  # that a token may be good for, if it ends at all
HINT_LENGTH = 8  # four of the prefix and four by which its owner knows it: 24 of 256 bits revealed
NAME_LIMIT = 100
GROUP_NAME_LIMIT = 60  # characters: a line of a phone and a half
TOKENS_LIMIT = 100  # of a person that open something: each is a row on the account page
GROUPS_LIMIT = 100  # that one person made and that are still there
MEMBERS_LIMIT = 25  # people in a group that is joined by a link
SESSION_ID_LENGTH = 16  # hexadecimal digits: 64 bits, which no two guests share by chance
GUEST_PREFIX = "guest-"
GUEST_DAYS = 30
# Names that would be taken for the farm itself, or for who runs it.
RESERVED = frozenset({
    "admin", "administrator", "anonymous", "assistant", "farm", "guest", "jobfarm", "operator", "root", "staff",
    "system",
})  # fmt: skip
# What is written together: as the "highly restrictive" level of Unicode's security mechanisms (UTS 39, section 5.2).
_WRITTEN_TOGETHER = ({"LATIN", "HAN", "HIRAGANA", "KATAKANA"}, {"LATIN", "HAN", "BOPOMOFO"}, {"LATIN", "HAN", "HANGUL"})
_OF_EVERY_SCRIPT = {"COMMON", "INHERITED"}
# Letters that are read alike by everybody when bent and crossed by lines: no two that a line makes alike (E and F, P
# and R, X and Y), none of many slanted strokes (M, N, W), and without B D I J L O Q S U V Z.
CAPTCHA_LETTERS = "ACEGHKRTX"
CAPTCHA_LENGTH = 5


def hashed(secret: str) -> str:
    """The SHA-256 of a secret, as 64 hexadecimal digits: what is stored and looked up.

    Fast and without salt on purpose. Slow hashes protect secrets that people choose; ours are 256 random bits, which
    nobody guesses, and they are checked at every call. Any text is taken, also one that no UTF-8 can hold.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_name(name: str) -> bool:
    """Whether a token may be called so: 1 to 100 printable characters that are not all spaces."""
    return 0 < len(name) <= NAME_LIMIT and name.isprintable() and not name.isspace()


def scope_text(scopes: Iterable[str]) -> str:
    """Scopes as they are stored: known ones, each once, in the order of SCOPES; empty when none of them is known."""
    known = set(scopes)
    return " ".join(scope for scope in SCOPES if scope in known)


def tidied(name: str) -> str:
    """A name as it is stored: composed (NFC), so that one name is one text, and with single spaces inside alone."""
    return " ".join(unicodedata.normalize("NFC", name).split())


def is_group_name(name: str) -> bool:
    """Whether a tidied name may be a group's: 1 to 60 printable characters."""
    return 0 < len(name) <= GROUP_NAME_LIMIT and name.isprintable()


def is_reserved(username: str) -> bool:
    """Whether nobody may choose this name: it is the farm's, an administrator's or a guest's."""
    folded = username.casefold()
    return folded.partition("-")[0] in RESERVED


def mixes_scripts(name: str) -> bool:
    """Whether a name has letters of scripts that nobody writes together, so that it can look like another's: "admin"
    with a Cyrillic "a". (A name wholly in another script is one that people there have.)"""
    scripts = categories.unique_aliases(name) - _OF_EVERY_SCRIPT
    return len(scripts) > 1 and not any(scripts <= together for together in _WRITTEN_TOGETHER)


def captcha_text(*, rng: Random) -> str:
    return "".join(rng.choice(CAPTCHA_LETTERS) for _ in range(CAPTCHA_LENGTH))


def cache_key(key: str, prefix: str, version: int) -> str:
    """Django's form of a key in the cache (KEY_FUNCTION). Marks of used codes come last: what is too much is deleted
    from the front, and without its mark a code would be good again."""
    is_mark = key.startswith("allauth.mfa.totp.used")
    return f"{'z' if is_mark else ''}{prefix}:{version}:{key}"
