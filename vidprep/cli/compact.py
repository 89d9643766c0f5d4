"""`vidprep compact`."""

from __future__ import annotations

import click

from vidprep.cli.indexes import check_index
from vidprep.cli.outputs import OutputOption
from vidprep.errors import VidprepError


@click.command()
@click.argument("index", metavar="INDEX", type=click.Path())
@click.option(
    "-o", "--output", cls=OutputOption, required=True, metavar="NEW",
    help="Folder (or s3://...) of the new index; must hold none yet.",
)  # fmt: skip
def command(index: str, output: str) -> None:
    r"""Write an index anew, same rows, same order, with fewer and larger parts. The old one stays.

    \b
    Example:
      vidprep compact index -o index-compact
    """
    from vidprep.indexes.merge import compact_index

    check_index(index)
    try:
        total = compact_index(index, output)
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{total} videos in {output}")
