"""`python -m gradate` is the `gradate` command."""

from gradate.cli import main

if __name__ == "__main__":
    main()
