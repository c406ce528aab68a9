"""docs/python.md is what the signatures and docstrings say, and has what apps on the farm call."""

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from scheduling.operations import Json
from scripts import python_docs
from tests.architecture.test_tidiness import ROOT, tracked
from tests.looped import looped

CALLS = list(python_docs.calls())
# Whose names an app on the farm takes from a module, and where they are instead of on the page.
ELSEWHERE = {
    "live.administration": "pages of the administration",
    "jobs.domain": "statuses, as values",
    "jobs.kinds": "the same as jobs.operations",
    "jobs.models": "Django's own interface",
    "webhooks.models": "Django's own interface",
}
FARM = ("jobs", "accounts", "scheduling", "ratelimits", "webhooks", "live", "postgres")


def test_is_what_the_generator_writes() -> None:
    assert python_docs.PAGE.read_text() == python_docs.page(), "make docs"


def test_names_nothing_twice_for_two_things() -> None:
    named: dict[str, Any] = {}
    for name, call in CALLS:
        assert named.setdefault(name, call) is call or name.startswith("scheduling."), name


@looped(("name", "call"), CALLS, ids=[name for name, _ in CALLS])
def test_each_says_what_it_does_and_takes(name: str, call: Any) -> None:
    doc = inspect.getdoc(call) or ""
    assert doc, f"{name} needs a docstring"
    assert not doc.startswith(f"{name.rpartition('.')[2]}("), f"{name} has only what dataclass writes"
    if inspect.isfunction(call):
        assert unsaid(call) == [], f"{name} does not say what it takes"


def unsaid(function: Callable[..., Any]) -> list[str]:
    """The parameters of a function that a reader cannot know: without a type, or any number of any."""
    return [
        parameter.name
        for signature in python_docs.signatures(function)
        for parameter in signature.parameters.values()
        if parameter.annotation is parameter.empty
        or (parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and parameter.annotation is Any)
    ]


def test_finds_a_function_that_does_not_say_what_it_takes() -> None:
    def vague(known: int, bare, *args: Any, **options: Any) -> None:  # type: ignore[no-untyped-def]
        """As it should not be."""

    assert unsaid(vague) == ["bare", "args", "options"]


@looped(
    ("given", "shown"),
    [
        (None, "None"),
        (int | None, "int | None"),
        (Mapping[str, timedelta], "Mapping[str, timedelta]"),
        (Callable[[int, str], bool], "Callable[[int, str], bool]"),
        (Callable[..., Any] | str, "Callable[..., Any] | str"),
        (Json, "Json"),
    ],
)
def test_shows_types_as_a_reader_writes_them(given: Any, shown: str) -> None:
    assert python_docs.annotation(given) == shown


def test_shows_the_marks_between_parameters() -> None:
    def marked(first: int, /, second: str = "x", *, third: float = 1.0, **rest: Json) -> None:
        """With all of them."""

    [signature] = python_docs.signatures(marked)
    shown = python_docs.call("marked", signature)
    assert shown == 'marked(first: int, /, second: str = "x", *, third: float = 1.0, **rest: Json)'


def test_has_all_that_the_examples_and_the_documents_call() -> None:
    listed = {(part.module, name) for parts in python_docs.CHAPTERS.values() for part in parts for name in part.names}
    sources = {str(path.relative_to(ROOT)): path.read_text() for path in tracked("examples/*.py")}
    for page in tracked("docs/*.md", "README.md"):
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
        sources |= {f"{page.name}:{place}": block for place, block in enumerate(blocks)}
    taken = {use: where for where, source in sources.items() for use in uses(source)}
    assert len(taken) > 30
    missing = {use: where for use, where in taken.items() if use not in listed}
    assert missing == {}, "name it in scripts/python_docs.py"


def test_sees_what_a_module_takes_from_the_farm() -> None:
    source = "from jobs.operations import sweep\nfrom jobs import operations as work, errors\nwork.retain(errors.X, 1)"
    assert set(uses(source)) == {("jobs.operations", "sweep"), ("jobs.operations", "retain")}


def uses(source: str) -> Iterator[tuple[str, str]]:
    """The names that a module takes from the farm's own ones, each with the module that it comes from."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a signature, or a piece of one
        return
    taken = list(imports(tree))
    yield from ((module, name) for module, name, _ in taken if f"{module}.{name}" not in _MODULES)
    modules = {alias: f"{module}.{name}" for module, name, alias in taken}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=alias), attr=name) if modules.get(alias) in _MODULES:
                if _is_on_the_page(modules[alias]):
                    yield modules[alias], name


def imports(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """Module, name, and what it is called here, of all that comes from the farm's apps."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if module.split(".")[0] in FARM:
                if _is_on_the_page(module):
                    yield from ((module, one.name, one.asname or one.name) for one in names)


_MODULES = {
    module
    for path in tracked("*.py")
    if (module := ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"))
}


def _is_on_the_page(module: str) -> bool:
    """Whether names of this module belong on the page; errors are named where they are raised."""
    is_elsewhere = any(module == known or module.startswith(f"{known}.") for known in ELSEWHERE)
    return bool(module) and not is_elsewhere and not module.endswith(".errors")
