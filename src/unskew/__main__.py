"""``python -m unskew`` is the command ``unskew``, and this is where both begin."""

import sys


def main() -> None:
    """Load the command line and run it; Ctrl-C while it is still loading ends as it does later, in
    words and with exit code 130.
    """
    try:
        from unskew.cli.app import run_from_shell as run
    except KeyboardInterrupt:
        sys.stderr.write("unskew: Stopped. Nothing had begun yet.\n")
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
