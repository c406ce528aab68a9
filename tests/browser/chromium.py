"""The browser of the tests, and how it is started."""

import shutil

# The one without a window takes two thirds of the processor time of the whole one.
CHROMIUM = shutil.which("chromium-headless-shell") or "/usr/bin/chromium"
# Each more process costs on few cores, and no test looks at what keeps pages apart.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--in-process-gpu"]
ARGUMENTS += ["--renderer-process-limit=1", "--disable-site-isolation-trials"]
