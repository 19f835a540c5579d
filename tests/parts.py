"""The files that a test file of tests/device is sent with."""

import re
from pathlib import Path

_DEVICE = Path(__file__).parent / "device"


def ahead(file: Path) -> list[Path]:
    """Return the files ahead of a test file: the harness, and the parts of tests/device/parts that
    its first line names, as in "# with: tasks, tls"."""
    first = file.read_text().partition("\n")[0]
    named = re.fullmatch(r"# with: (\w+(?:, \w+)*)", first)
    names = named[1].split(", ") if named else []
    return [_DEVICE / "harness.py", *(_DEVICE / "parts" / f"{name}.py" for name in names)]
