from tests.chaos import soak


def charts(*values: float) -> dict[str, soak.Series]:
    return {"memory, MB": {"web-1": [(10.0 * n, value) for n, value in enumerate(values)]}}


def test_what_grows_over_the_hours_is_named_and_what_stays_or_is_started_again_is_not() -> None:
    [sentence] = soak.grown(charts(*(100 + 5.0 * n for n in range(80))))
    assert sentence == "memory, MB of web-1: 248 in the second quarter, 448 in the last"
    assert soak.grown(charts(*([100.0, 140.0] * 40))) == []
    assert soak.grown(charts(*(10 + n for n in range(20)))) == []  # which is noise
    assert soak.grown(charts(100, 900)) == []  # which is too short to tell


def test_the_page_has_a_line_for_each_and_says_what_is_the_most() -> None:
    written = soak.page({**charts(100, 300, 200), "rows": {"<jobs>": [(0.0, 1.0)]}})
    assert written.count("<polyline") == 2
    assert "web-1: 100 to 200, 300 at most" in written
    assert "&lt;jobs&gt;" in written
