"""Shows figures: as text, in a Markdown page, in a picture."""

import math
from pathlib import Path


def number(value: float) -> str:
    """Return it with about two digits, never as a power of ten."""
    size = abs(value)
    if size == 0 or size >= 100:
        return f"{value:.0f}"
    digits = 1 if size >= 10 else 1 - math.floor(math.log10(size))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def replaced(text: str, name: str, by: str) -> str:
    """Return a Markdown text with other lines between `<!-- NAME -->` and the next
    `<!-- end -->`; unchanged without the former."""
    begin = f"<!-- {name} -->\n"
    head, found, rest = text.partition(begin)
    return head + begin + by + "\n" + rest[rest.index("<!-- end -->") :] if found else text


def figure_style():
    """Return matplotlib.pyplot, set for pictures that are the same for the same figures."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "svg.hashsalt": "asyncio_alt",
            "font.family": "DejaVu Sans",  # comes with matplotlib
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    return pyplot


def save(figure, path: Path):
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
