"""``python -m unskew`` is the command ``unskew``, and this is where both begin."""

import os
import sys

from unskew.cli.stop_signal import stop_code, stop_on_signals


def main() -> None:
    """Load the command line and run it; Ctrl-C, SIGTERM or SIGHUP while it is still loading
    ends as it does later, in words and with exit code 130, 143 or 129.

    ``python -m`` puts the working directory first on the import path: it is removed, so that no
    file there takes the place of a module. Processes that this one starts do not get it either.
    """
    os.environ["PYTHONSAFEPATH"] = "1"
    if not sys.flags.safe_path and __name__ == "__main__" and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]
    # Arrow's own allocator keeps several times the memory that a table of a few megabytes takes.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    stop_on_signals()
    try:
        from unskew.cli.app import run_from_shell as run
    except KeyboardInterrupt:
        sys.stderr.write("unskew: Stopped. Nothing had begun yet.\n")
        raise SystemExit(stop_code()) from None
    run()


if __name__ == "__main__":
    main()
