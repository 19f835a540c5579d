"""A figure: how it is made from samples, judged and shown."""

import dataclasses
import math
import statistics
from collections.abc import Callable

from asyncio_alt.pc.show import number

PACKAGES = {"stock": "asyncio", "ours": "asyncio_alt"}
PEER = "peer"  # both a side and its package, which tools/bench/scripts/peer.py makes of stock's

median = statistics.median
worst = max


def p99(samples):
    return sorted(samples)[math.ceil(len(samples) * 0.99) - 1]


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number that compares ours with stock, if stock has it; less is better."""

    name: str
    unit: str
    key: str  # of the samples in the script's result
    of: Callable = median  # makes a number from the samples of all repeats
    required: float | None = None  # at most
    aim: float | None = None
    ratio: bool = False  # these two are for ours / stock, not for ours


def judged(figure, stock, ours, peer=None) -> dict:
    """Return a figure as it goes into the JSON."""
    ratio = ours / stock if stock else None
    value = ratio if figure.ratio else ours
    return {
        "name": figure.name,
        "unit": figure.unit,
        "stock": _rounded(stock),
        "peer": _rounded(peer),
        "ours": _rounded(ours),
        "ratio": _rounded(ratio),
        "required": figure.required,
        "aim": figure.aim,
        "limits are for": "ratio" if figure.ratio else "ours",
        "ok": None if figure.required is None else value <= figure.required,
    }


def _rounded(value):
    return value if value is None else float(f"{value:.4g}")


def shown(figure) -> list[str]:
    """Return stock, ours and their ratio as text."""
    ratio = figure["ratio"]
    return [
        *(with_unit(figure, side) for side in PACKAGES),
        "" if ratio is None else number(ratio),
    ]


def with_unit(figure, side) -> str:
    """Return a figure's value for a side as text, "" if it has no value."""
    value = figure.get(side)
    return "" if value is None else f"{number(value)} {figure['unit']}".strip()
