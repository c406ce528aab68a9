"""`python -m tests.histories FILE`: what a recorded history says that cannot have been; 1 if there is anything."""

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.histories import checking, farm_calls


def main() -> int:
    """Check the files that are named, one after another."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON lines, gzipped")
    faults = [fault for path in parser.parse_args().files for fault in _faults(path)]
    return 1 if faults else 0


def _faults(path: Path) -> list[str]:
    history = farm_calls.read(path)
    counted = Counter(f"{one.call} {one.outcome}" for one in history.calls)
    faults = checking.faults(history)
    for fault in faults:
        print(f"fault: {fault}")
    print(f"{path}: {len(history.calls)} calls, {len(faults)} faults")
    print("  " + ", ".join(f"{what} {count}" for what, count in sorted(counted.items())))
    return faults


if __name__ == "__main__":
    sys.exit(main())
