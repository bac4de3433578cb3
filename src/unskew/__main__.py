"""``python -m unskew`` is the command ``unskew``."""

from unskew.cli import main

if __name__ == "__main__":
    main()
