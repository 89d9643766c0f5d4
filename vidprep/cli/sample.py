"""`vidprep sample`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vidprep.cli.indexes import holds_index
from vidprep.cli.outputs import OutputFile
from vidprep.errors import SamplingError, VidprepError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vidprep.records import Timeline, VideoLike
    from vidprep.samplers.dry_run import DryRun
    from vidprep.samplers.plan import Plan
    from vidprep.samplers.policy import Policy
    from vidprep.samplers.spec import DecodeSpec

#: Clips of an index that go on a contact sheet unless --limit says otherwise.
SHEET_CLIPS = 16
#: The same for a page.
PAGE_CLIPS = 64
PLACES_PER_LINE = 8
#: A month at 25 frames a second; the times of all are held.
MAX_NUM_FRAMES = 1 << 26


@click.command()
@click.argument("path", metavar="[FILE|INDEX]", required=False, type=click.Path())
@click.option(
    "--num-frames",
    type=click.IntRange(0, MAX_NUM_FRAMES),
    metavar="N",
    help="Instead of a FILE: a video of so many frames ...",
)
@click.option("--fps", default="30", show_default=True, help="... at this constant rate (30, 29.97, 30000/1001).")
@click.option("--policy", "policy_text", required=True, metavar="SPEC", help="NAME:key=value,..., see below.")
@click.option("--pad", help="What fills places outside the range; overrides pad= of the policy.")
@click.option("--compat", metavar="PEER", help="A peer's exact indices: torchcodec, slowfast, decord, qwen, ...")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--epoch", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N clips.")
@click.option("--json", "as_json", is_flag=True, help="Clips as a JSON list; of an INDEX in the order of the epoch.")
@click.option("--sheet", type=OutputFile(), metavar="OUT.png", help="Draw the chosen frames.")
@click.option("--html", type=OutputFile(), metavar="OUT.html", help="Show them in a page; one file.")
def command(
    path: str | None, num_frames: int | None, fps: str, policy_text: str, pad: str | None, compat: str | None,
    seed: int, epoch: int, limit: int | None, as_json: bool, sheet: str | None, html: str | None,
) -> None:  # fmt: skip
    r"""Show which frames a policy takes from a video; over an INDEX, count what it would yield, pad and refuse.

    SPEC is NAME:key=value,... with NAME one of first last strided uniform random list rate segments dense keyframes
    windows delta. In the table a place that was padded is marked with "~"; in JSON constant padding is frame -1, pts
    null.

    \b
    Examples:
      vidprep sample a.mp4 --policy uniform:frames=8 --sheet sheet.png
      vidprep sample a.mp4 --policy random:frames=16,stride=4 --pad edge --seed 7 --json
      vidprep sample --num-frames 100 --fps 25 --policy list:frames=0/7/33
      vidprep sample index --policy dense:frames=16,stride=4 --epoch 3
      vidprep sample index --policy random:frames=8 --limit 200 --html clips.html
    """
    if (path is None) == (num_frames is None):
        raise click.UsageError("give a FILE, an INDEX, or --num-frames")
    if (sheet or html) and path is None:
        raise click.UsageError("--sheet and --html need a FILE or an INDEX")
    try:
        policy = policy_of(policy_text, pad, compat)
        if path is not None and _is_index(path):
            _sample_index(path, policy, seed, epoch, limit, as_json=as_json, sheet=sheet, html=html)
        else:
            _sample_video(path, num_frames, fps, policy, (seed, epoch), limit, as_json=as_json, sheet=sheet, html=html)
    except SamplingError as error:
        raise click.UsageError(str(error)) from error
    except VidprepError as error:
        raise click.ClickException(str(error)) from error


def policy_of(text: str, pad: str | None, compat: str | None) -> Policy:
    """The policy of SPEC, with --pad and --compat in place of its own."""
    from vidprep.samplers.parse import parse_policy

    given = {name: value for name, value in (("pad", pad), ("compat", compat)) if value is not None}
    return replace(parse_policy(text), **given)  # type: ignore[arg-type]  # texts, for texts


def _is_index(path: str) -> bool:
    """A folder, or one part of an index."""
    if "://" not in path and ".tar::" not in path and not Path(path).exists():
        raise click.UsageError(f"no such file: {path}")
    return holds_index(path)


# --- one video --------------------------------------------------------------------------------------------------------


def _sample_video(
    path: str | None, num_frames: int | None, fps: str, policy: Policy, seed_epoch: tuple[int, int], limit: int | None,
    *, as_json: bool, sheet: str | None, html: str | None,
) -> None:  # fmt: skip
    from itertools import islice

    video = None if path is None else _probed(path)
    timeline = _regular(num_frames or 0, fps) if video is None else video.timeline
    if not timeline.num_frames:
        raise SamplingError("the video has no frames")
    key = (*seed_epoch, 0)
    numbers = range(policy.num_clips(timeline))
    clips = [(path, policy.choose(timeline, key, clip=number)) for number in islice(numbers, limit)]
    if as_json:
        _print_json(clips)
    else:
        click.echo("\n".join(_table(policy, timeline, [spec for _, spec in clips])))
    if sheet is not None and video is not None:
        _draw(sheet, [(video, spec) for _, spec in clips])
    if html is not None and video is not None:
        _write_page(html, policy, "", [(number, video, spec) for number, (_, spec) in enumerate(clips)])


def _probed(path: str) -> VideoLike:
    from vidprep.indexes.probe import probe

    return probe(path)


def _regular(num_frames: int, fps: str) -> Timeline:
    from vidprep.records import Timeline
    from vidprep.samplers.checks import rate

    return Timeline.regular(num_frames, rate("sample", "fps", fps))


def _print_json(clips: Iterable[tuple[str | None, DecodeSpec]]) -> None:
    """A JSON list, a clip a line, written as it comes."""
    before = "["
    for video, spec in clips:
        click.echo(before + json.dumps({"video": video, **spec.to_dict()}))
        before = ","
    click.echo("[]" if before == "[" else "]")


def _table(policy: Policy, timeline: Timeline, specs: Sequence[DecodeSpec]) -> Iterator[str]:
    facts = timeline.timing
    yield f"{timeline.num_frames} frames, {facts.duration_seconds:.3f} s, {facts.avg_fps:g} fps ({facts.vfr_class})"
    yield f"{policy.to_text()}: {len(specs)} clip{'' if len(specs) == 1 else 's'}"
    for number, spec in enumerate(specs):
        padded = int(spec.is_padding.sum())
        yield f"clip {number}: {len(spec)} frames" + (f", {padded} padded (~)" if padded else "")
        places = [_place(spec, i) for i in range(len(spec))]
        for start in range(0, len(places), PLACES_PER_LINE):
            yield "  " + "  ".join(places[start : start + PLACES_PER_LINE]).rstrip()


def _place(spec: DecodeSpec, i: int) -> str:
    """Frame, "~" where padded, and its time."""
    frame, mark = int(spec.frame_index[i]), "~" if spec.is_padding[i] else " "
    time = "     fill" if frame < 0 else f"{spec.pts_seconds[i]:8.3f}s"
    return f"{'-' if frame < 0 else frame:>6}{mark}{time}"


# --- an index ---------------------------------------------------------------------------------------------------------


def _sample_index(
    path: str, policy: Policy, seed: int, epoch: int, limit: int | None, *, as_json: bool, sheet: str | None,
    html: str | None,
) -> None:  # fmt: skip
    from vidprep.cli.progress import Progress
    from vidprep.indexes import open_index
    from vidprep.samplers.dry_run import dry_run, planned_clips
    from vidprep.samplers.plan import Plan

    plan = Plan(open_index(path), policy, seed=seed)
    total = len(plan) if limit is None else min(limit, len(plan))
    with Progress("clips", "clips", total) as progress:
        if as_json:
            _print_json(_index_clips(plan, epoch, total, progress))
        else:
            run = dry_run(plan, epoch, limit=limit, progress=progress.show)
            click.echo("\n".join(_summary(plan, run, total)))
    if sheet is not None:
        shown = range(min(total, limit or SHEET_CLIPS))
        clips = planned_clips(plan, epoch, shown, lambda *_: None)
        _draw(sheet, [(plan.videos[clip.video], clip.spec) for clip in clips])
    if html is not None:
        shown = range(min(total, limit or PAGE_CLIPS))
        clips = planned_clips(plan, epoch, shown, lambda *_: None)
        about = f"{path}, epoch {epoch}, seed {seed}: {len(shown)} of {len(plan)} places"
        _write_page(html, policy, about, ((clip.position, plan.videos[clip.video], clip.spec) for clip in clips))


def _index_clips(plan: Plan, epoch: int, total: int, progress: Any) -> Iterator[tuple[str, DecodeSpec]]:
    from vidprep.pages.text import shown
    from vidprep.samplers.dry_run import planned_clips

    def refuse(position: int, error: VidprepError) -> None:
        click.echo(f"position {position}: {shown(str(error))}", err=True)

    for clip in planned_clips(plan, epoch, range(total), refuse):
        progress.show(clip.position + 1)
        yield clip.uri, clip.spec


def _summary(plan: Plan, run: DryRun, total: int) -> Iterator[str]:
    from vidprep.pages.text import shown

    share = 100 * run.padded_places / run.places if run.places else 0.0
    each = run.cost_bound / run.clips if run.clips else 0.0
    yield f"{plan.policy.to_text()} over {plan.units.count} videos"
    yield f"  {'clips in an epoch':<28}{len(plan):>12}" + (f"   ({total} looked at)" if total < len(plan) else "")
    yield f"  {'clips yielded':<28}{run.clips:>12}"
    yield f"  {'clips padded':<28}{run.padded_clips:>12}   ({run.padded_places} of {run.places} places, {share:.1f} %)"
    yield f"  {'videos that give no clip':<28}{run.refused_videos:>12}"
    yield f"  {'clips refused':<28}{run.refused_clips:>12}"
    yield f"  {'pictures to decode, at most':<28}{run.cost_bound:>12}   ({each:.1f} a clip)"
    for reason, found in sorted(run.reasons.items(), key=lambda item: -item[1].count):
        yield f"  {found.count:>9} x {reason}"
        yield f"              e.g. {shown(found.example)}"


def _draw(path: str, clips: Sequence[tuple[VideoLike, DecodeSpec]]) -> None:
    from vidprep.cli.sheet import draw_sheet
    from vidprep.pages.text import shown

    try:
        errors = draw_sheet(path, clips)
    except OSError as error:
        raise click.FileError(path, hint=error.strerror or str(error)) from error
    for reason in errors:
        click.echo(f"not drawn: {shown(str(reason))}", err=True)
    click.echo(path, err=True)


def _write_page(path: str, policy: Policy, about: str, clips: Iterable[tuple[int, VideoLike, DecodeSpec]]) -> None:
    from vidprep.cli.sample_page import sample_page
    from vidprep.pages import write_page

    try:
        write_page(path, sample_page(policy.to_text(), about, clips))
    except OSError as error:
        raise click.FileError(path, hint=error.strerror or str(error)) from error
    click.echo(path, err=True)
