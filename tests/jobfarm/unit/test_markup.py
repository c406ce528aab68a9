"""What is built into every template: tables, facts, buttons that post and ask, and what stands in an empty place."""

from typing import Any

from django.template import Context, Template


def rendered(text: str, **context: Any) -> str:
    return Template(text).render(Context({"csrf_token": "token", **context}))


def test_a_page_begins_with_what_it_is_and_what_can_be_done() -> None:
    head = rendered('{% page_head name before="Queue" lead="Of jobs." %} <a>Pause</a> {% endpage_head %}', name="<a>")
    assert head == (
        '<div class="page-head"><h1><span class="soft">Queue</span> &lt;a&gt;</h1>'
        '<div class="row"> <a>Pause</a> </div><p class="lead">Of jobs.</p></div>'
    )
    assert '<span class="soft">#7</span> &lt;a&gt;' in rendered(
        "{% page_head name before=7 %}{% endpage_head %}", name="<a>"
    )
    assert rendered('{% page_head "Jobs" %} {% endpage_head %}') == '<div class="page-head"><h1>Jobs</h1></div>'


def test_a_section_is_named_by_its_heading() -> None:
    part = rendered('{% section "Last jobs" css="card" data_key="a" %}<p></p>{% endsection %}')
    heading = '<h2 id="last-jobs-title">Last jobs</h2>'
    assert part == f'<section aria-labelledby="last-jobs-title" class="card" data-key="a">{heading}<p></p></section>'
    flush = rendered('{% section "Crons" css="card flush" link="All" page="scheduling:crons" %}{% endsection %}')
    assert '<header><h2 id="crons-title">Crons</h2><a class="small" href="/crons/">All</a></header>' in flush


def test_a_table_has_a_hidden_caption_a_head_and_these_rows() -> None:
    table = rendered('{% table caption "Job" "Run|number" css="jobs" %}<tr></tr>{% endtable %}', caption="A & B")
    assert table.startswith(
        '<table class="table jobs" role="table"><caption class="visually-hidden">A &amp; B</caption><thead'
    )
    assert '<th role="columnheader" scope="col" class="number">Run</th>' in table
    assert table.endswith('<tbody role="rowgroup"><tr></tr></tbody></table>')


def test_a_column_without_a_title_is_left_out() -> None:
    assert rendered('{% table "Jobs" "Job" owner %}<tr></tr>{% endtable %}').count("columnheader") == 1


def test_a_fact_is_there_if_there_is_something_to_say() -> None:
    text = '{% fact "Host" css="mono" %} {% if host %}<b>{{ host }}</b>{% endif %} {% endfact %}'
    assert rendered(text, host="<h>") == '<div><dt>Host</dt><dd class="mono"><b>&lt;h&gt;</b></dd></div>'
    assert rendered(text) == ""


def test_a_moment_within_a_sentence_is_one_that_the_browser_shows_in_its_zone() -> None:
    sentence = "The last was <w1>, until 2026-11-29 16:19:35 UTC; another since 2026-11-29 16:19 UTC."
    assert rendered("{{ sentence|moments }}", sentence=sentence) == (
        'The last was &lt;w1&gt;, until <time datetime="2026-11-29T16:19:35Z">2026-11-29 16:19:35 UTC</time>; '
        'another since <time datetime="2026-11-29T16:19Z">2026-11-29 16:19 UTC</time>.'
    )


def test_an_empty_place_says_what_to_do() -> None:
    place = rendered('{% no_rows "No jobs" "None yet." "jobs:list" "All jobs" %}')
    assert "<h2>No jobs</h2>" in place
    assert '<a class="button primary" href="/jobs/">All jobs</a>' in place
    assert "<a " not in rendered('{% no_rows "No jobs" %}')


def test_a_button_posts_with_the_token_of_the_page() -> None:
    button = rendered('{% post_button "Pause" "jobs:pause" "a b" css="primary" when="open" id="stop" %}')
    assert button == (
        '<form method="post" action="/queues/a%20b/pause/" class="when-open" id="stop">'
        '<input type="hidden" name="csrfmiddlewaretoken" value="token">'
        '<button class="button primary" type="submit">Pause</button></form>'
    )


def test_a_button_may_leave_the_page_as_it_is() -> None:
    button = rendered('{% post_button "Pause" "jobs:pause" "a" hx=True %}')
    assert 'hx-disabled-elt="find button" hx-post="/queues/a/pause/" hx-swap="none"' in button


def test_a_button_says_what_it_acts_on_to_who_hears_the_page() -> None:
    button = rendered('{% post_button "Pause" "jobs:pause" "a" about="a" data_cancels=True %}')
    assert 'Pause<span class="visually-hidden"> a</span></button>' in button
    assert " data-cancels>" in button


def test_a_button_asks_its_question_first() -> None:
    text = '{% asking_button "Pause" "jobs:pause" "a" yes="Yes" %} Pause {{ name }}? {% endasking_button %}'
    assert 'data-confirm="Pause &lt;a&gt;?" data-confirm-button="Yes">' in rendered(text, name="<a>")
