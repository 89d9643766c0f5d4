"""`vidprep merge`."""

from __future__ import annotations

import click

from vidprep.cli.indexes import check_index
from vidprep.cli.outputs import OutputOption
from vidprep.errors import VidprepError


@click.command()
@click.argument("indexes", nargs=-1, required=True, metavar="INDEX...", type=click.Path())
@click.option(
    "-o", "--output", cls=OutputOption, required=True, metavar="NEW",
    help="Folder (or s3://...) of the new index; must hold none yet.",
)  # fmt: skip
def command(indexes: tuple[str, ...], output: str) -> None:
    r"""Gather several indexes into a new one; a video that several hold is taken from the first.

    \b
    Examples:
      vidprep merge index-0 index-1 index-2 -o index
      vidprep merge s3://bucket/index-0 s3://bucket/index-1 -o s3://bucket/index
    """
    from vidprep.indexes.merge import merge_indexes

    for path in indexes:
        check_index(path)
    try:
        total = merge_indexes(indexes, output)
    except (VidprepError, OSError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{total} videos in {output}")
