"""The package's files, as boards get them: those of asyncio_alt, and those of its parts."""

import json
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
NEEDS = {  # parts that a part needs
    "hub": ("link",),
    "link": ("protocol", "pubsub"),
    "mqtt": ("pubsub",),
}


def names() -> list[str]:
    """Return the names of all parts."""
    return sorted(path.stem for path in PACKAGE.glob("*.json") if path.stem != "package")


def version() -> str:
    return _base()["version"]


def files(parts) -> dict[str, Path]:
    """Return the files of asyncio_alt with these parts, and what they need: by the path on a
    board, as asyncio_alt/core.py, its source."""
    wanted = [*parts]
    for part in wanted:
        wanted += [needed for needed in NEEDS.get(part, ()) if needed not in wanted]
    lists = [
        _base(),
        *(json.loads((PACKAGE / f"{p}.json").read_text()) for p in sorted(set(wanted))),
    ]
    targets = [target for each in lists for target, _ in each["urls"]]
    return {target: PACKAGE.parent / target for target in targets}


def _base():
    # In the wheel it lies in the package, in the repository beside it.
    inside = PACKAGE / "package.json"
    return json.loads((inside if inside.exists() else PACKAGE.parent / inside.name).read_text())
