"""Looks after each statement of a transaction which tables' rows it has locked, changed or deleted since, and which
advisory locks it has taken: within one statement there is no order. It is the same session that looks: what rows it has
changed is known to nobody else. A transaction that a test composes counts by its parts."""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, Final, TextIO
from weakref import WeakKeyDictionary

import psycopg
import pytest
from django.db import connection
from psycopg.pq import TransactionStatus

from postgres.backend import trips

ROOT: Final = f"{Path(__file__).parents[2]}{os.sep}"
# How many rows a transaction changed is counted from its beginning on, if what came before it was flushed.
_FLUSH: Final = b"SELECT pg_stat_force_next_flush()"
_LOOK: Final = b"""
SELECT now(), CASE locktype WHEN 'advisory' THEN 'advisory ' || classid ELSE place.relname END, mode,
       coalesce(pg_stat_get_xact_tuples_updated(relation), 0), coalesce(pg_stat_get_xact_tuples_deleted(relation), 0),
       coalesce(pg_stat_get_xact_tuples_inserted(relation), 0)
FROM pg_locks AS lock
LEFT JOIN pg_class AS place ON place.oid = relation AND relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace
WHERE pid = pg_backend_pid() AND granted AND (locktype = 'advisory' OR place.oid IS NOT NULL)
  AND mode NOT IN ('AccessShareLock', 'SIReadLock')
"""
_NAME: Final = re.compile(r"/\* (\S+) \*/")
_BEFORE_ALL: Final = re.compile(r"\s*(SET|SAVEPOINT|RELEASE|ROLLBACK)\b", re.IGNORECASE)
_WAITS_NOT: Final = re.compile(r"SKIP LOCKED|NOWAIT|pg_try_advisory", re.IGNORECASE)
_LOCKS: Final = re.compile(r"FOR (NO KEY UPDATE|KEY SHARE|UPDATE|SHARE)", re.IGNORECASE)
_OF_ROWS: Final = {"NO KEY UPDATE": "changed", "KEY SHARE": "key", "UPDATE": "deleted", "SHARE": "changed"}
STRENGTH: Final = ("key", "changed", "deleted")
"""Of locks on rows: as long as their keys stay, as long as nobody changes them, as long as nobody refers to them."""

_PLANTED: Final = ("tests/lockorders", "tests/schedules")  # they take locks in orders that are to be found
Lock = tuple[str, str]  # a table or the number of an advisory lock, and how it is held
Row = tuple[str, str, int, int, int]


@dataclass(slots=True)
class Part:
    """What one call into the farm has done of a transaction: `before` it others had these locks."""

    began: bytes
    caller: FrameType | None
    before: set[Lock] = field(default_factory=set)
    held: dict[Lock, str] = field(default_factory=dict)


class Watch:
    """What the transactions of this process hold, and the graph: a line for each two statements that make an edge."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._parts: WeakKeyDictionary[Any, Part] = WeakKeyDictionary()
        self._known: set[tuple[object, ...]] = set()

    def begin(self, session: "psycopg.Connection[Any]") -> None:
        """Before a statement: if it begins a transaction, have its changes counted from here on."""
        if session.pgconn.transaction_status == TransactionStatus.IDLE and not session.autocommit:
            session.pgconn.exec_(_FLUSH)

    def look(self, session: "psycopg.Connection[Any]", text: str) -> None:
        """After a statement of a transaction that goes on: what it has locked in addition."""
        is_open = session.pgconn.transaction_status == TransactionStatus.INTRANS
        if not is_open or _BEFORE_ALL.match(text) or _is_of_a_test(session):
            return
        result = session.pgconn.exec_(_LOOK)
        values = [[(result.get_value(row, column) or b"").decode() for column in range(6)]
                  for row in range(result.ntuples)]  # fmt: skip
        rows = [(name, mode, int(changed), int(deleted), int(new)) for _, name, mode, changed, deleted, new in values]
        part = self._part(session, began=(result.get_value(0, 0) or b"") if values else b"")
        if part.caller is not None:
            self._note(part, _short(text), text, rows)
        part.before |= {lock for lock in _locks(rows, text) if part.caller is None}

    def _part(self, session: "psycopg.Connection[Any]", *, began: bytes) -> Part:
        caller, part = _caller(), self._parts.get(session.pgconn)
        if part is None or part.began != began:
            self._parts[session.pgconn] = part = Part(began, caller)
        elif part.caller is not caller:
            self._parts[session.pgconn] = part = Part(began, caller, part.before | part.held.keys())
        return part

    def _note(self, part: Part, statement: str, text: str, rows: Sequence[Row]) -> None:
        locks = set(_locks(rows, text))
        for gone in part.held.keys() - locks:
            if gone[0] not in {name for name, _ in locks}:  # a savepoint was rolled back
                del part.held[gone]
        earlier = dict(part.held)
        new = [lock for lock in locks if not _is_held(lock, part.before | earlier.keys())]
        part.held |= dict.fromkeys(new, statement)
        put_in = {row[0] for row in rows if row[4]}
        for lock in new:
            if not _waits_not(lock, rows, text, put_in):
                for held, before in earlier.items():
                    self._write(held, lock, before, statement)

    def _write(self, held: Lock, wanted: Lock, before: str, statement: str) -> None:
        edge = (*held, *wanted, before, statement)
        is_measured = statement.startswith("EXPLAIN")  # by a test
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        is_setup = test.endswith("(setup)")  # of the first one, which makes the tables
        if held[0] != wanted[0] and not is_measured and not is_setup and edge not in self._known:
            self._known.add(edge)
            self._file.write(json.dumps([*edge, test]) + "\n")
            self._file.flush()


def record(folder: Path) -> None:
    """From now on, in this process, into a file of its own in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    install(Watch((folder / f"{os.getpid()}.orders").open("a")))


def install(watch: Watch) -> None:
    """Have it look after each statement of this process."""
    execute, trip = psycopg.Cursor.execute, trips._trip

    @wraps(execute)
    def watched(cursor: Any, query: Any, *given: Any, **options: Any) -> Any:
        watch.begin(cursor.connection)
        answer = execute(cursor, query, *given, **options)
        watch.look(cursor.connection, query if isinstance(query, str) else str(query))
        return answer

    def one_by_one(session: Any, sent: Sequence[Any]) -> Any:
        watch.begin(session)
        if session.autocommit and session.pgconn.transaction_status == TransactionStatus.IDLE:
            return (yield from trip(session, sent))  # a transaction of its own, in no order
        results = []
        for each in sent:
            results += yield from trip(session, [each])
            watch.look(session, each.query.decode())
        return results

    psycopg.Cursor.execute = watched  # type: ignore[method-assign, assignment]
    trips._trip = one_by_one  # type: ignore[assignment]


def committed(items: list[pytest.Item]) -> list[pytest.Item]:
    """Those of these tests whose transactions are the farm's: of the others all is one that is rolled back."""
    return [item for item in items if _commits(item) and not item.nodeid.startswith(_PLANTED)]


def _commits(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("django_db")
    return bool(mark and mark.kwargs.get("transaction")) or "transactional_db" in getattr(item, "fixturenames", ())


def _is_of_a_test(session: "psycopg.Connection[Any]") -> bool:
    return connection.connection is session and any(
        getattr(block, "_from_testcase", False) for block in connection.atomic_blocks
    )


def _caller() -> FrameType | None:
    """The outermost frame of the farm's own code: None where a test asks the database itself."""
    frame, found = sys._getframe(), None
    while frame := frame.f_back:  # type: ignore[assignment]
        name = frame.f_code.co_filename
        if name.startswith(ROOT) and not name.startswith((f"{ROOT}tests", f"{ROOT}.venv", f"{ROOT}postgres/backend")):
            found = frame
    return found


def _locks(rows: Sequence[Row], text: str) -> Iterator[Lock]:
    for name, mode, changed, deleted, _ in rows:
        match mode:
            case _ if name.startswith("advisory"):
                yield name, "shared" if mode == "ShareLock" else "exclusive"
            case "RowShareLock":
                words = _LOCKS.findall(text) if name in text else []  # a key's, where the statement does not say it
                yield name, max((_OF_ROWS[word.upper()] for word in words), key=STRENGTH.index, default="key")
            case "RowExclusiveLock":
                yield from [(name, "deleted")] if deleted else [(name, "changed")] if changed else []
            case _:
                yield name, "table"


def _is_held(lock: Lock, held: set[Lock]) -> bool:
    """Whether it is, or one that says more: the same rows, as far as anybody can tell."""
    name, mode = lock
    stronger = STRENGTH[STRENGTH.index(mode) :] if mode in STRENGTH else (mode,)
    return any((name, each) in held for each in stronger)


def _waits_not(lock: Lock, rows: Sequence[Row], text: str, put_in: set[str]) -> bool:
    """Whether nobody can be in the way: what is locked is passed over, or these are rows that it has put in itself."""
    modes = {mode for name, mode, *_ in rows if name == lock[0]}
    is_row_share = lock[0].startswith("advisory") or "RowShareLock" in modes
    return bool(_WAITS_NOT.search(text) and is_row_share) or (lock[0] in put_in and "RowShareLock" not in modes)


def _short(text: str) -> str:
    named = _NAME.search(text)
    return named[1] if named else " ".join(text.split())[:200]
