"""`{% load imagegame %}`: the badge and the heading of a game's stage."""

from typing import Final

from django import template

from examples.imagegame.domain.stages import Stage
from examples.imagegame.queries.tables import Table

register = template.Library()

# The status of a job whose colour and icon the badge of a stage has (templates/parts/status.html), and the label.
BADGES: Final = {
    Stage.LOBBY: ("pending", "waiting for players"),
    Stage.OVER: ("success", "over"),
    Stage.ABANDONED: ("canceled", "abandoned"),
}
HEADINGS: Final = {
    Stage.LOBBY: "Waiting for players",
    Stage.PAINTING: "Everybody paints",
    Stage.NAMING: "Picture {number} of {pictures}: what is it called?",
    Stage.GUESSING: "Picture {number} of {pictures}: which title is the true one?",
    Stage.REVEAL: "Picture {number} of {pictures}: the truth",
    Stage.OVER: "The game is over",
    Stage.ABANDONED: "The game was abandoned",
}
PAINTERS: Final = {"good": "OK", "late": "unreliable", "bad": "failing"}


@register.inclusion_tag("parts/status.html")
def stage_badge(stage: str) -> dict[str, str]:
    """The stage of a game."""
    status, label = BADGES.get(Stage(stage), ("in_progress", stage))
    return {"status": status, "label": label}


@register.filter
def heading(table: Table) -> str:
    """What the stage of a game asks of its players, or how the game ended."""
    stage = Stage(table.game.stage)
    return HEADINGS[stage].format(number=table.number, pictures=table.pictures)


@register.filter
def painters(mood: str) -> str:
    """How well painting goes, by the mood of its health."""
    return PAINTERS.get(mood, "")
