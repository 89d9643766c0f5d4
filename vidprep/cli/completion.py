"""`vidprep completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    r"""Print the script by which a shell completes commands, options and file names.

    \b
    Examples:
      vidprep completion bash > ~/.local/share/bash-completion/completions/vidprep
      eval "$(vidprep completion zsh)"
      vidprep completion fish > ~/.config/fish/completions/vidprep.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"click knows no completion for {shell}")
    click.echo(kind(ctx.find_root().command, {}, "vidprep", "_VIDPREP_COMPLETE").source())
