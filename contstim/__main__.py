"""``python -m contstim COMMAND`` is ``contstim COMMAND``."""

from contstim.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
