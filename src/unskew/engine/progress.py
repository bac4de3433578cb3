"""One progress bar: count, rate and time left.

It is on the error stream of a terminal, and silent everywhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_progress(
    label: str, total: int, show: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(count)``, to be called as the work goes on.

    ``show``: None shows a bar where the error stream is a terminal, False never (quiet), True
    always.
    """
    if show is False or (show is None and not _on_terminal()):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        *(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()),
        *(TextColumn("{task.fields[rate]}"), TimeRemainingColumn()),
    )
    with Progress(
        *columns, console=Console(stderr=True, force_terminal=show), transient=True
    ) as bar:
        task = bar.add_task(label, total=total, rate="")

        def advance(count: int) -> None:
            bar.update(task, advance=count)
            done, elapsed = bar.tasks[0].completed, bar.tasks[0].elapsed or 0.0
            # Over the whole run: batches end in bursts, and the rate of a burst says nothing.
            speed = done / elapsed if elapsed > 0 else 0.0
            bar.update(task, rate=f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s")

        yield advance


def _on_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # no error stream (pythonw), or a closed one
        return False
