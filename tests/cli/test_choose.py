"""The command choose is tested with what it writes."""

from unskew.cli.app import app


def test_the_command_exists() -> None:
    assert "choose" in [command.name for command in app.registered_commands]
