"""The variables of the game."""

_BLOCKED = ["nude", "naked", "porn", "gore", "beheading", "torture", "swastika"]
VARIABLES = (
    ("JOBFARM_GAME_PICTURE_S", "positive", 30.0,
        "so long a picture of the image game may wait, and again be painted", "s"),
    ("JOBFARM_GAME_BLOCKED", "phrases", _BLOCKED,
        "words that the game paints nothing for, with commas between them"),
)  # fmt: skip
