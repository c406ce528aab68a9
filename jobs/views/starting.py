"""How a worker is started on another machine: commands with the address of the farm and the worker's key in them."""

from dataclasses import dataclass
from typing import Final

_WHEEL: Final = "jobfarm-0.1.0-py3-none-any.whl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to start it: an id for the page, a title, what is needed before, and the text to copy."""

    id: str
    title: str
    needs: str
    text: str


def commands(farm: str, *, key: str, options: str) -> list[Way]:
    """Every way, the shortest first. The key stands in the environment, where process lists do not show it."""
    run = f"-m jobfarm_worker --url {farm} {options}"
    return [
        Way(
            id="command",
            title="With pip",
            needs="In an environment of its own, with Python 3.11 and the farm's wheel: in its source, "
            "pip wheel --no-deps -w dist . makes it.",
            text=f"pip install '{_WHEEL}[demo,openai]'\nJOBFARM_KEY={key} python {run}",
        ),
        Way(
            id="checkout",
            title="From a checkout",
            needs="In the folder of the farm's source.",
            text=f"pip install '.[demo,openai]'\nJOBFARM_KEY={key} python {run}",
        ),
        Way(
            id="docker",
            title="With Docker",
            needs="In the folder of the farm's source: its image has the worker too.",
            text=f"docker build -t jobfarm .\n"
            f"docker run -d --restart unless-stopped -e JOBFARM_KEY={key} --entrypoint python jobfarm {run}",
        ),
        Way(
            id="systemd",
            title="With systemd",
            needs="As /etc/systemd/system/jobfarm-worker.service; then systemctl enable --now jobfarm-worker. "
            "WorkingDirectory is where the environment lies.",
            text=_UNIT.format(key=key, run=run),
        ),
    ]


_UNIT: Final = """[Unit]
Description=A worker of the job farm
After=network-online.target
Wants=network-online.target

[Service]
DynamicUser=yes
WorkingDirectory=/opt/jobfarm-worker
Environment=JOBFARM_KEY={key}
ExecStart=/opt/jobfarm-worker/.venv/bin/python {run}
Restart=always
TimeoutStopSec=30

[Install]
WantedBy=multi-user.target
"""
