"""`python -m haarflow` is `haarflow`."""

from haarflow.cli import main

if __name__ == "__main__":
    main()
