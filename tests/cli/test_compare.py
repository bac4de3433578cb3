"""The command compare is tested with its page."""

from unskew.cli.app import app


def test_the_command_exists() -> None:
    assert "compare" in [command.name for command in app.registered_commands]
