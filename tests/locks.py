"""A lock that a page takes without a transaction is refused, as on a farm, where a test is rolled back too.

Django refuses `select_for_update` outside of a transaction. The transaction of the test hid that: a button that every
test pressed was a 500 on every farm.
"""

from typing import Any

from django.core.signals import request_finished, request_started
from django.db import connection
from django.db.models.sql.compiler import SQLCompiler
from django.db.transaction import TransactionManagementError

_as_sql = SQLCompiler.as_sql
_around: list[int] = []  # how many transactions were open when the request under way began


def forget(**_: Any) -> None:
    """No request is under way."""
    _around.clear()


def _begin(**_: Any) -> None:
    _around[:] = [len(connection.savepoint_ids)] if connection.in_atomic_block else []


def _checked(compiler: SQLCompiler, with_limits: bool = True, with_col_aliases: bool = False) -> Any:
    if compiler.query.select_for_update and _around and len(connection.savepoint_ids) <= _around[0]:
        raise TransactionManagementError("select_for_update cannot be used outside of a transaction.")
    return _as_sql(compiler, with_limits, with_col_aliases)


def as_on_a_farm() -> None:
    """From now on, for what Django's test client asks for."""
    SQLCompiler.as_sql = _checked  # type: ignore[method-assign, assignment]
    request_started.connect(_begin)
    request_finished.connect(forget)
