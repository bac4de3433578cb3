"""`python -m unskew`."""

from __future__ import annotations

import sys

import pytest


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
