"""Built into every template: heads of pages, sections, tables, facts, buttons that post, and what stands where there is
nothing to list."""

from collections.abc import Mapping
from typing import Any, Final

from django import template
from django.forms import BaseForm
from django.forms.utils import flatatt
from django.template import Context
from django.template.defaulttags import CsrfTokenNode
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import slugify

from live.templatetags.words import columns

register = template.Library()
_OURS: Final = {
    "Sign In": "Log in", "Sign Up": "Sign up", "Signup": "Sign up", "Two-Factor Authentication": "Second factors",
    "Authenticator App": "Authenticator app", "Security Keys": "Passkeys and security keys",
    "Recovery Codes": "Recovery codes", "Email Addresses": "Email addresses", "Set Password": "Set a password",
    "Change Password": "Change the password", "Add Email": "Add the address", "Make Primary": "Make it the primary one",
}  # fmt: skip


@register.filter
def in_our_words(text: str) -> str:
    for theirs, ours in _OURS.items():
        text = text.replace(theirs, ours)
    return SafeString(text)


@register.simple_block_tag
def page_head(content: str, title: str, /, before: str | int = "", lead: str = "") -> SafeString:
    """What a page is, in a word or its number `before` its name and a sentence; its content is what can be done with
    it."""
    word = f"#{before}" if isinstance(before, int) else before
    heading = format_html('<span class="soft">{}</span> {}', word, title) if word else title
    actions = format_html('<div class="row">{}</div>', content) if content.strip() else ""
    sentence = format_html('<p class="lead">{}</p>', lead) if lead else ""
    return format_html('<div class="page-head"><h1>{}</h1>{}{}</div>', heading, actions, sentence)


@register.simple_block_tag
def section(
    content: str, title: str, /, css: str = "card stack", link: str = "", page: str = "", **more: str
) -> SafeString:
    """A part of a page under its heading, which has a `link` to another page beside it; `more` are its attributes."""
    name = f"{slugify(title)}-title"
    heading = format_html('<h2 id="{}">{}</h2>', name, title)
    if link:
        heading += format_html('<a class="small" href="{}">{}</a>', reverse(page), link)
    if link or "flush" in css:
        heading = format_html("<header>{}</header>", heading)
    attributes = flatatt({"class": css, "aria-labelledby": name, **_attributes(more)})
    return format_html("<section{}>{}{}</section>", attributes, heading, content)


@register.simple_block_tag
def table(content: str, caption: str, /, *titles: str, css: str = "") -> SafeString:
    """A table of these rows, with a caption for who hears the page; what stands in place of rows stands alone. Columns
    as `columns` has them; one without a title is left out."""
    if "<tr" not in content:
        return SafeString(content)
    return format_html(
        '<table class="table{}" role="table"><caption class="visually-hidden">{}</caption>{}'
        '<tbody role="rowgroup">{}</tbody></table>',
        css and f" {css}", caption, columns(*filter(None, titles)), content,
    )  # fmt: skip


@register.simple_block_tag
def fact(content: str, name: str, /, css: str = "") -> SafeString | str:
    """An entry of a list of facts; none where there is nothing to say."""
    shown = content.strip()
    return format_html("<div><dt>{}</dt><dd{}>{}</dd></div>", name, _css(css), SafeString(shown)) if shown else ""


@register.inclusion_tag("parts/empty.html")
def no_rows(title: str, text: str = "", page: str = "", action: str = "") -> dict[str, str]:
    """Nothing here, and what to do about it: a link to the page of this name, if there is something to do."""
    return {"title": title, "text": text, "url": page and reverse(page), "action": action}


@register.simple_tag(takes_context=True)
def post_button(
    context: Context, label: str, page: str, /, *args: Any, css: str = "", when: str = "", about: str = "",
    hx: bool = False, **more: Any,
) -> SafeString:  # fmt: skip
    """A form of one button, which posts to the page of this name; `more` are attributes of the form.

    `when`: how what it acts on has to be for the button to be seen (the class when-paused). `about`: what it acts on,
    for who hears the page. `hx`: the page stays.
    """
    action = reverse(page, args=args)
    sent = {"hx-post": action, "hx-swap": "none", "hx-disabled-elt": "find button"} if hx else {}
    form = flatatt({"class": f"when-{when}" if when else None, **sent, **_attributes(more)})
    csrf = CsrfTokenNode().render(context)
    hidden = format_html('<span class="visually-hidden"> {}</span>', about) if about else ""
    button = format_html('<button{} type="submit">{}{}</button>', _css(f"button {css}".strip()), label, hidden)
    return format_html('<form method="post" action="{}"{}>{}{}</form>', action, form, csrf, button)


@register.simple_block_tag(takes_context=True)
def asking_button(context: Context, content: str, label: str, page: str, /, *args: Any, yes: str, **how: Any) -> str:
    """A `post_button` that asks first: its content is the question, `yes` the button that answers it."""
    asks: dict[str, Any] = {"data_confirm": SafeString(content.strip()), "data_confirm_button": yes}
    return post_button(context, label, page, *args, **how, **asks)


@register.simple_tag
def fields(form: BaseForm, *names: str, wide: str = "", **how: Any) -> SafeString:
    """The fields of a form that have these names, as far as it has them, as parts/field.html shows each."""
    named = [form[name] for name in names if name in form.fields]
    shown = [render_to_string("parts/field.html", {"field": one, "wide": one.name == wide, **how}) for one in named]
    return SafeString("".join(shown))


def _attributes(named: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in named.items()}


def _css(names: str) -> SafeString:
    return flatatt({"class": names or None})
