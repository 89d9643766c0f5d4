"""The command line. Each command lives in a module of its own, imported when it is run: `vidprep` starts fast."""

from __future__ import annotations

import importlib

import click

from vidprep import __version__

__all__ = ["main"]

#: command → (module in this package, one line for `vidprep --help`)
COMMANDS = {
    "index": ("index", "Index videos: one Parquet row for each, resumable."),
    "inspect": ("inspect", "Show what a video's index row says, and why."),
    "stats": ("stats", "Summarise an index: counts, hours, resolutions, failures."),
    "validate": ("validate", "Check videos or an index: tables, key frames, pictures."),
    "sample": ("sample", "Show which frames a policy takes; dry runs and contact sheets."),
    "decode": ("decode", "Decode exactly the named frames of a file to .npy."),
    "export": ("export", "Write an index, or the clips of a policy, for other tools."),
    "merge": ("merge", "Gather several indexes (shards of one run) into one."),
    "compact": ("compact", "Write an index anew with fewer, larger parts."),
    "bench": ("bench", "Measure how fast clips of an index come, on this machine."),
    "completion": ("completion", "Print the completion script of a shell."),
}


def unwrapped(text: str | None) -> str | None:
    r"""Help text of a raw docstring: its \b lines become the character by which click leaves a paragraph as it is."""
    return text and text.replace("\\b\n", "\b\n")


class LazyGroup(click.Group):
    """A group that knows its commands' names and help lines without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of COMMANDS."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and take its `command`."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"{__name__}.{COMMANDS[cmd_name][0]}").command
        assert isinstance(command, click.Command)  # noqa: S101 - a broken module, not a user's mistake
        command.help = unwrapped(command.help)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; its error may hold any file's name, which must not command a terminal."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            from vidprep.pages.text import shown

            vars(error)["message"] = shown(error.message)  # typed as final; every subclass formats it
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help lines from COMMANDS."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vidprep")
def main() -> None:
    r"""Exact container indexes, frame sampling and decoding of video for model training.

    \b
    Example:
      vidprep index videos/ -o index
      vidprep stats index
      vidprep sample index --policy uniform:frames=8 --sheet sheet.png
    """


main.help = unwrapped(main.help)
