#!/usr/bin/env python
"""The command line of the farm in a checkout: `python manage.py help` lists what it can do."""

from jobfarm.__main__ import main

if __name__ == "__main__":
    main()
