"""Names are the field's terms (docs/glossary.md): the words that they replaced do not come back."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.test_tidiness import ROOT, tracked
from tests.looped import looped

# Whole words of a name: `note_asked` has the word asked, `task` has none.
# fmt: off
REPLACED = frozenset({
    "asked", "bell", "bells", "boot", "bury", "deed", "deeds", "desk", "dice", "ear", "hear", "heard",
    "keeper", "looked", "news", "retell", "retelling", "retold", "ring", "rung", "said", "senders",
    "senseless", "shy", "standing", "stretch", "stretches", "tallied", "tallies", "tally", "tell",
    "telling", "tells", "told", "upkeep", "wish", "wishes",
})
# fmt: on
# In tests a fixture or a sample may be given, and what is found compared.
REPLACED_IN_THE_PRODUCT = frozenset({"given", "found", "what"})
# Words of libraries and protocols, which are not ours to choose.
NOT_OURS = frozenset({"NotFound", "_not_found"})
BESIDE = ("benchmarks", "scripts", "tests")
PRODUCT = ("accounts", "alerts", "core", "examples", "jobfarm", "jobfarm_client", "jobfarm_worker", "jobs", "live",
           "metering", "observing", "openai_api", "outbox", "postgres", "ratelimits", "scheduling",
           "webhooks")  # fmt: skip


def words_of(name: str) -> set[str]:
    """The words of a name in snake or camel case, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def names_in(source: str) -> Iterator[str]:
    """Whatever a module gives a name: variables, arguments, functions, classes, fields."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def replaced(names: Iterator[str], *, by: frozenset[str] = REPLACED) -> set[str]:
    """Those of the names that have one of these words."""
    return {name for name in names if name not in NOT_OURS and words_of(name) & by}


@looped("app", [*PRODUCT, *BESIDE])
def test_no_name_has_a_replaced_word(app: str) -> None:
    sources = [path for path in tracked(f"{app}/*.py") if "migrations" not in path.parts]
    assert sources
    words = REPLACED | REPLACED_IN_THE_PRODUCT if app in PRODUCT else REPLACED
    found = {_relative(path): old for path in sources if (old := replaced(_ours(names_in(path.read_text())), by=words))}
    assert found == {}, "docs/glossary.md has the field's term"


def _ours(names: Iterator[str]) -> Iterator[str]:
    """Names of tests are sentences."""
    return (name for name in names if not name.startswith("test_"))


def test_no_file_is_called_by_a_replaced_word() -> None:
    stems = (_relative(path) for app in PRODUCT for path in tracked(f"{app}/*"))
    assert {name for name in stems if words_of(Path(name).stem) & REPLACED} == set()


def test_no_statement_names_anything_so() -> None:
    """Aliases, columns and parameters; comments and texts are prose."""
    found = {}
    for path in tracked("*.sql"):
        code = re.sub(r"--.*|'[^']*'", "", path.read_text())
        if old := replaced(iter(re.findall(r"\b[A-Za-z_]+\b", code))):
            found[_relative(path)] = old
    assert found == {}


@looped("name", ["note_told", "Tally", "TallyMark", "_ring", "jobs_shy", "boot_id"])
def test_a_replaced_word_is_found(name: str) -> None:
    assert replaced(iter([name])) == {name}


@looped("name", ["NotFound", "string", "desktop", "bring", "early", "reboot", "strings_of"])
def test_other_words_are_not(name: str) -> None:
    assert replaced(iter([name])) == set()


def _relative(path: Path) -> str:
    return str(path.relative_to(ROOT))
