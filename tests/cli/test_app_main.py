"""`python -m unskew`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `main` changes for its process is undone: later tests start processes, too."""
    for name in ("PYTHONSAFEPATH", "ARROW_DEFAULT_MEMORY_POOL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def test_stopped_while_the_command_line_is_still_loading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C within the first moments, in the middle of an import: words and 130, no traceback."""
    import builtins

    from unskew.__main__ import main

    real = builtins.__import__

    def stopped(name: str, *rest: object, **named: object) -> object:
        if name == "unskew.cli.app":
            raise KeyboardInterrupt
        return real(name, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "unskew.cli.app", raising=False)
    monkeypatch.setattr(builtins, "__import__", stopped)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "unskew: Stopped. Nothing had begun yet.\n"
