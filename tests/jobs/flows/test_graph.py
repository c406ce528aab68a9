"""The picture of a flow: who is alike, where each stands, and which way took longest."""

from collections.abc import Sequence
from re import findall

import pytest

from jobs.domain.flow_graph import FOLDED_FROM, HEIGHT, MOST_NODES, Graph, Place, graph


def place(number: int, *after: int, depth: int, kind: str = "work", status: str = "success", ran_s: float = 1) -> Place:
    return Place(id=number, name=f"n{number}", kind=kind, status=status, depth=depth, after=after, ran_s=ran_s)


def fan(many: int, *, failed: int = 0) -> list[Place]:
    """One, many after it that differ in nothing but how they stand, and one after all of them."""
    middle = [
        place(n, 1, depth=1, kind="embed", status="failed" if n < 2 + failed else "success") for n in range(2, many + 2)
    ]
    return [
        place(1, depth=0),
        *middle,
        place(many + 2, *(one.id for one in middle), depth=2, status="pending", ran_s=0),
    ]


def labels(drawn: Graph) -> list[tuple[str, int]]:
    return [(node.label, node.number) for node in drawn.nodes]


def test_of_few_each_is_drawn_in_the_column_of_its_depth() -> None:
    drawn = graph([place(1, depth=0), place(2, 1, depth=1), place(3, 1, depth=1), place(4, 2, 3, depth=2)])
    assert labels(drawn) == [("n1", 1), ("n2", 1), ("n3", 1), ("n4", 1)]
    assert len(drawn.lines) == 4
    first, left, right, last = drawn.nodes
    assert first.x < left.x == right.x < last.x
    assert abs(left.y - right.y) >= 44
    assert all(0 <= node.x <= drawn.width - 168 and 0 <= node.y <= drawn.height - 44 for node in drawn.nodes)


def test_of_many_those_that_are_alike_are_one_with_a_number() -> None:
    drawn = graph(fan(10_000, failed=3))
    assert labels(drawn) == [("n1", 1), ("embed", 10_000), ("n10002", 1)]
    middle = drawn.nodes[1]
    assert (middle.status, middle.stands, middle.share) == ("failed", "3 failed, 9,997 success", 1.0)
    assert middle.title == "embed × 10,000: 3 failed, 9,997 success"


def test_ways_side_by_side_that_are_alike_are_one_way() -> None:
    many = FOLDED_FROM
    ways = [place(n + 1, depth=0, kind="load") for n in range(many)]
    ways += [place(many + n + 1, n + 1, depth=1, kind="embed") for n in range(many)]
    ways += [place(2 * many + 1, many + 1, depth=2, kind="check")]  # after one of them alone
    assert sorted(labels(graph(ways))) == sorted([
        ("embed", many - 1), ("load", many - 1), (f"n{2 * many + 1}", 1), ("n1", 1), (f"n{many + 1}", 1),
    ])  # fmt: skip


def test_the_way_that_ran_for_longest_is_marked() -> None:
    drawn = graph([
        place(1, depth=0, ran_s=1), place(2, 1, depth=1, ran_s=5), place(3, 1, depth=1, ran_s=2),
        place(4, 2, 3, depth=2, ran_s=1), place(5, 3, depth=2, ran_s=3),
    ])  # fmt: skip
    assert [node.first.id for node in drawn.nodes if node.is_longest] == [1, 2, 4]
    assert drawn.longest_s == 7
    assert sum(line.is_longest for line in drawn.lines) == 2


def test_an_order_with_fewer_crossings_is_found() -> None:
    first = [place(n, depth=0) for n in (1, 2, 3)]
    drawn = graph([*first, place(4, 3, depth=1), place(5, 2, depth=1), place(6, 1, depth=1)])
    rows = {node.first.id: node.y for node in drawn.nodes}
    assert [rows[n] for n in (1, 2, 3)] == [rows[n] for n in (6, 5, 4)]  # no line crosses another


def test_a_line_over_several_columns_goes_around_what_stands_there() -> None:
    drawn = graph([place(1, depth=0), place(2, 1, depth=1), place(3, 2, depth=2), place(4, 1, 3, depth=3)])
    between = drawn.nodes[1:3]
    [long] = [line.path for line in drawn.lines if line.path.count("C") == 3]
    passes = [(int(x), int(y)) for x, y in findall(r"(\d+) (\d+)H", long)]
    assert [x for x, _ in passes] == [node.x for node in between]
    assert all(not node.y <= y <= node.y + HEIGHT for node, (_, y) in zip(between, passes, strict=True))


def test_a_line_around_a_whole_column_is_within_the_picture() -> None:
    middle = range(2, 14)
    drawn = graph([place(1, depth=0), *(place(n, 1, depth=1) for n in middle), place(14, 1, *middle, depth=2)])
    turns = [int(y) for line in drawn.lines for y in findall(r" (\d+)H", line.path)]
    assert len(turns) == 1
    assert 0 < turns[0] < drawn.height


def test_those_of_one_column_stand_in_the_order_of_the_flow_where_nothing_speaks_against_it() -> None:
    drawn = graph([place(1, depth=0), *(place(n, 1, depth=1) for n in range(2, 14)), place(14, *range(2, 14), depth=2)])
    rows = [node.y for node in drawn.nodes[1:13]]
    assert rows == sorted(rows)


def test_the_parts_of_a_picture_that_hang_together_stand_one_below_the_other() -> None:
    drawn = graph([place(1, depth=0), place(2, depth=0), place(3, 1, depth=1), place(4, 2, depth=1), place(5, depth=0)])
    assert len({(node.x, node.y) for node in drawn.nodes}) == 5
    rows = {node.first.id: node.y for node in drawn.nodes}
    assert rows[1] == rows[3] != rows[2] == rows[4]


@pytest.mark.parametrize("places", [[], [place(1, depth=0)]])
def test_nothing_and_one_are_drawn_too(places: Sequence[Place]) -> None:
    drawn = graph(places)
    assert (len(drawn.nodes), drawn.longest_s) == (len(places), float(len(places)))


def test_what_is_too_much_to_draw_is_counted() -> None:
    chain = [place(n, *([n - 1] if n > 1 else []), depth=n - 1) for n in range(1, MOST_NODES + 51)]
    drawn = graph(chain)
    assert (len(drawn.nodes), drawn.left_out) == (MOST_NODES, 50)
