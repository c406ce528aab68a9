"""How a worker is started on another machine: commands with the address of the farm and the worker's key in them."""

from typing import Final, NamedTuple

_WHEEL: Final = "jobfarm-0.1.0-py3-none-any.whl"


class Way(NamedTuple):
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
            "command", "With pip",
            "In an environment of its own, with Python 3.11 and the farm's wheel: in its source, "
            "pip wheel --no-deps -w dist . makes it.",
            f"pip install '{_WHEEL}[demo,openai]'\nJOBFARM_KEY={key} python {run}",
        ),
        Way(
            "checkout", "From a checkout",
            "In the folder of the farm's source.",
            f"pip install '.[demo,openai]'\nJOBFARM_KEY={key} python {run}",
        ),
        Way(
            "docker", "With Docker",
            "In the folder of the farm's source: its image has the worker too.",
            f"docker build -t jobfarm .\n"
            f"docker run -d --restart unless-stopped -e JOBFARM_KEY={key} --entrypoint python jobfarm {run}",
        ),
        Way(
            "systemd", "With systemd",
            "As /etc/systemd/system/jobfarm-worker.service; then systemctl enable --now jobfarm-worker. "
            "WorkingDirectory is where the environment lies.",
            _UNIT.format(key=key, run=run),
        ),
    ]  # fmt: skip


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
