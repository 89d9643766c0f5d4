"""`vidprep inspect`."""

import click


@click.command()
def command() -> None:
    """Being built."""
