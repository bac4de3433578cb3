"""The three pictures of docs/three-pictures.md: `python tools/start_pictures.py` writes them.

15 images of two databases, two classes, and a target in which both classes are as frequent. The
weight of an image of class y is p(y) / (N_y / n), so that shares of weight are those of the target.
"""

from __future__ import annotations

from pathlib import Path

OUT = Path(__file__).parents[1] / "docs" / "pictures"
# (database, circles, squares), and the target's shares.
SOURCES = (("north", 8, 1), ("south", 2, 4))
TARGET = {"circle": 0.5, "square": 0.5}
_STYLE = """
text { font: 15px system-ui, sans-serif; fill: #1c2733 }
.head { font-weight: 600 }
.small { font-size: 13px; fill: #55606b }
.box { fill: none; stroke: #8a949e; stroke-width: 1.5 }
.circle { fill: #1f6fb2 }
.square { fill: #c8651b }
@media (prefers-color-scheme: dark) {
  text { fill: #e6ebf0 }
  .small { fill: #a9b4bf }
  .box { stroke: #75808b }
  .circle { fill: #5aa9e6 }
  .square { fill: #f0964f }
}
"""


def _counts() -> dict[str, int]:
    return {
        "circle": sum(circles for _, circles, _ in SOURCES),
        "square": sum(squares for _, _, squares in SOURCES),
    }


def weights() -> dict[str, float]:
    """Return the sample weight (mean 1) of the images of each class."""
    count = _counts()
    n = sum(count.values())
    return {kind: TARGET[kind] * n / count[kind] for kind in TARGET}


def _mark(kind: str, x: float, y: float, size: float) -> str:
    if kind == "circle":
        return f'<circle class="circle" cx="{x}" cy="{y}" r="{size / 2:.4g}"/>'
    half = size / 2
    return (
        f'<rect class="square" x="{x - half:.4g}" y="{y - half:.4g}" width="{size:.4g}" '
        f'height="{size:.4g}"/>'
    )


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{words}</text>'


def _bar(x: float, y: float, share: dict[str, float]) -> str:
    """Draw shares as one bar of 200, with their numbers."""
    first = 200 * share["circle"]
    return (
        f'<rect class="circle" x="{x}" y="{y}" width="{first:.4g}" height="26"/>'
        f'<rect class="square" x="{x + first:.4g}" y="{y}" width="{200 - first:.4g}" height="26"/>'
        + _text(x, y + 45, f"{share['circle']:.0%} circles", "small")
        + _text(x + 110, y + 45, f"{share['square']:.0%} squares", "small")
    )


def _database(x: float, name: str, marks: list[tuple[str, float]]) -> str:
    rows = [
        _mark(kind, x + 32 + 38 * (at % 5), 76 + 38 * (at // 5), size)
        for at, (kind, size) in enumerate(marks)
    ]
    box = f'<rect class="box" x="{x}" y="44" width="216" height="102" rx="8"/>'
    return _text(x, 32, name, "head") + box + "".join(rows)


def _picture(title: str, body: str, height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {height}" role="img" '
        f'aria-labelledby="t"><title id="t">{title}</title><style>{_STYLE}</style>{body}</svg>\n'
    )


def _databases(size: dict[str, float]) -> str:
    drawn = []
    for at, (name, circles, squares) in enumerate(SOURCES):
        marks = [("circle", size["circle"])] * circles + [("square", size["square"])] * squares
        drawn.append(_database(20 + 280 * at, f"database {name}", marks))
    return "".join(drawn)


def main() -> None:
    """Write the three files."""
    count, weight = _counts(), weights()
    n = sum(count.values())
    pool = {kind: count[kind] / n for kind in count}
    carried = {kind: count[kind] * weight[kind] / n for kind in count}
    equal = {"circle": 22.0, "square": 20.0}
    by_weight = {kind: equal[kind] * weight[kind] ** 0.5 for kind in equal}
    OUT.mkdir(exist_ok=True)
    pictures = {
        "source": _picture(
            "Two sources: one took mostly circles, the other mostly squares", _databases(equal), 160
        ),
        "target": _picture(
            "All images together are two thirds circles; where the model will be used it is half",
            _text(20, 32, "all images together", "head")
            + _bar(20, 50, pool)
            + _text(300, 32, "the target", "head")
            + _bar(300, 50, TARGET),
            110,
        ),
        "weight": _picture(
            "The same images, drawn as large as their weights: together they are the target",
            _databases(by_weight)
            + _text(
                20,
                180,
                f"a circle counts for {weight['circle']:g}, a square for {weight['square']:g}",
                "head",
            )
            + _bar(20, 196, carried),
            255,
        ),
    }
    for name, picture in pictures.items():
        (OUT / f"{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
