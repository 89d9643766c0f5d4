"""`python -m vidprep` is the command too."""

from vidprep.cli import main

if __name__ == "__main__":
    main(prog_name="vidprep")
