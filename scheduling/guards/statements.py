"""What the text of an SQL statement says about it."""

import re

_COMMENTS = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERALS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$", re.DOTALL)
_CHANGES = r"\b(INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|(?<!FOR\s)(?<!KEY\s)UPDATE\s+(?!OF\b|SKIP\b|NOWAIT\b)\w)"
_WRITES = re.compile(
    r"^[\s(]*(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|CREATE|ALTER|DROP|CALL|DO|GRANT|REVOKE|REFRESH|COMMENT)\b"
    rf"|^[\s(]*(WITH|EXPLAIN|PREPARE)\b.*{_CHANGES}"
    r"|^[\s(]*(SELECT|WITH)\b.*\bINTO\s+(TEMP|UNLOGGED|TABLE|\w)"
    rf"|^\s*COPY\s+[^\s(].*\bFROM\b|^\s*COPY\s*\(.*{_CHANGES}",
    re.IGNORECASE | re.DOTALL,
)
# A statement that calls a function, or executes one that was prepared, may write unseen. One that locks rows must not
# be tried as if it only read: PostgreSQL takes that for a write.
_HIDES = re.compile(r"^[\s(]*(SELECT|WITH|VALUES|TABLE)\b.*\w\s*\(|^\s*EXECUTE\b", re.IGNORECASE | re.DOTALL)
_LOCKS = re.compile(r"\bFOR\s+(NO\s+KEY\s+)?UPDATE\b|\bFOR\s+(KEY\s+)?SHARE\b", re.IGNORECASE)


def is_write(text: str) -> bool:
    """Whether a statement, or one of several, says that it writes. A function that it calls may write unseen."""
    return any(_WRITES.search(statement) for statement in _bare(text).split(";"))


def may_hide_a_write(text: str) -> bool:
    """Whether one that does not say so may write all the same."""
    bare = _bare(text)
    return bool(_HIDES.search(bare)) and not _LOCKS.search(bare) and ";" not in bare


def _bare(text: str) -> str:
    return _COMMENTS.sub(" ", _LITERALS.sub(" _ ", text)).strip().rstrip(";")
