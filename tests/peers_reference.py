"""The peers' formulas again, written apart from vidprep in plain Python, and the frozen table of what they give.

`python tests/peers_reference.py` rewrites tests/cases/expected/peers_crc.json: for every peer the CRC-32 of the indices of
1,000 random (n, k, s). Floats are Python's (IEEE double); single precision goes through struct.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import struct
import zlib
from fractions import Fraction
from pathlib import Path

TABLE = Path(__file__).parent / "cases" / "expected" / "peers_crc.json"
ROWS = 1000
FPS = 30.0
REFUSED = [-99]


def triples():
    """1,000 (n, k, s): frames of the video, frames of a clip, stride."""
    rng = random.Random(20240229)
    return [(rng.choice((rng.randint(1, 40), rng.randint(1, 2000))), rng.randint(1, 24), rng.randint(1, 8))
            for _ in range(ROWS)]  # fmt: skip


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def torch_linspace(a, b, k):
    a, b = f32(a), f32(b)
    if k == 1:
        return [a]
    step = f32(f32(b - a) / f32(k - 1))
    return [f32(a + f32(step * i)) if i < k // 2 else f32(b - f32(step * (k - 1 - i))) for i in range(k)]


def np_linspace(a, b, k):
    if k == 1:
        return [float(a)]
    step = (b - a) / (k - 1)
    return [a + i * step for i in range(k - 1)] + [float(b)]


def np_arange(start, stop, step):
    delta = (start + step) - start
    return [start + i * delta for i in range(max(math.ceil((stop - start) / step), 0))]


def clamp(x, low, high):
    return max(low, min(x, high))


def torchcodec(n, k, s):
    span = s * (k - 1) + 1
    last = max(n - span + 1, 1) - 1
    clips = []
    for start in (int(0 + last / 2 * i) if i < 1 else int(last - last / 2 * (2 - i)) for i in range(3)):
        frames = [f for f in range(start, start + span, s) if f < n]
        clips += frames + [frames[-1]] * (k - len(frames))
    return clips


def torchcodec_rate(n, k, s):
    return [math.floor(Fraction(i * 30, s)) for i in range(max(round(Fraction(n * s, 30)), 1))]


def torchvision(n, k, s):
    return [f for start in range(0, n - k + 1, s) for f in (start, start + k - 1)]


def torchvision_resample(n, k, s):
    ratio = FPS / k
    if ratio == int(ratio):
        return list(range(0, n, int(ratio)))
    return [math.floor(f32(f32(i) * f32(ratio))) for i in range(math.floor(n * (k / FPS)))]


def mmaction2(n, k, s):
    room = max(n - ((k - 1) * s + 1), 0)
    starts = [round(room / 2 * i) for i in range(3)] if k > 1 else [int(i * (n / 3) + n / 3 / 2) for i in range(3)]
    return [(start + j * s) % n for start in starts for j in range(k)]


def mmaction2_tsn(n, k, s):
    return [int(i * (n / k) + n / k / 2) % n for i in range(k)]


def mmaction2_target_fps(n, k, s):
    length = max(1.0, k * s * FPS / 20)
    room = max(n - length, 0)
    return [(math.floor(room / 2) * clip + int(x)) % n for clip in range(3) for x in np_linspace(0, length - 1, k)]


def mmaction2_ava(n, k, s):
    return [clamp(f, 0, n - 1) for f in range(n // 3 - k // 2 * s, n // 3 + (k + 1) // 2 * s, s)]


def mmaction2_untrimmed(n, k, s):
    frames = [c + (j - k // 2) * s for c in range(8, n, 16) for j in range(k)]
    return [clamp(f, 0, n - 1) for f in frames]


def charades(n, k, s):
    room = max(n - ((k - 1) * s + 1), 0)
    return [clamp(round(room / 2 * clip) + j * s, 0, n - 1) for clip in range(3) for j in range(k)]


def ssv2(n, k, s):
    part = (n - 1) / k
    return [(round(part * i) + round(part * (i + 1))) // 2 for i in range(k)]


def mmaction2_uniform(n, k, s):
    part = (n - 1) / k
    return [round(part * i) + int(part / 2) for i in range(k)]


def slowfast(n, k, s):
    frames = []
    for clip in range(3):
        start = max(n - k * s, 0) * clip / 3
        frames += [int(clamp(x, 0, n - 1)) for x in torch_linspace(start, start + k * s - 1, k)]
    return frames


def pytorchvideo(n, k, s):
    return [int(clamp(x, 0, n - 1)) for x in torch_linspace(0, n - 1, k)]


def qwen(n, k, s):
    count = round(k / 2) * 2
    return [round(x) for x in torch_linspace(0, n - 1, count)] if 2 <= count <= n else REFUSED


def qwen_fps(n, k, s):
    count = math.floor(min(min(max(n / FPS * s, 4), 768), n) / 2) * 2
    return [round(x) for x in torch_linspace(0, n - 1, count)] if 2 <= count <= n else REFUSED


def videomae(n, k, s):
    frames = []
    for clip in range(2):
        part = n // 2
        if part > k * s:
            places = [clamp(x, 0, k * s - 1) for x in np_linspace(0, k * s, k)]
        else:
            many = part // s
            places = (np_linspace(0, part, many) if many else []) + [part] * (k - many)
            places = [clamp(x, 0, max(part - 1, 0)) for x in places]
        frames += [int(x) + clip * part for x in places]
    return frames


def vjepa2_overlap(n, k, s):
    frames, length, part = [], k * s, n // 2
    for clip in range(2):
        if part > length:
            frames += [int(clamp(x, 0, length - 1)) + clip * part for x in np_linspace(0, length, k)]
            continue
        last = min(length, n) - 1
        many = last // s
        places = (np_linspace(0, last, many) if many else []) + [last] * (k - many)
        step = n - length if n > length else 0
        frames += [int(clamp(x, 0, max(last - 1, 0))) + clip * step for x in places]
    return frames


def videomae_ssv2(n, k, s):
    tick = n / k
    return sorted([int(tick / 2 + tick * x) for x in range(k)] + [int(tick * x) for x in range(k)])


def internvideo(n, k, s):
    cuts = [int(x) for x in np_linspace(0, n, min(k, n) + 1)]
    frames = [(a + b - 1) // 2 for a, b in itertools.pairwise(cuts)]
    return frames + [frames[-1]] * (k - len(frames))


def internvideo_fps(n, k, s):
    delta = 1 / s
    return [f for f in (round(t * FPS) for t in np_arange(0 + delta / 2, n / FPS + delta / 2, delta)) if f < n][:k]


def opensora_any(n, k, s):
    """All crops that can be drawn."""
    if min(k * s, n) < k:
        return None
    starts = range(max(0, n - k * s - 1) + 1)
    return [[int(x) for x in np_linspace(b, min(b + k * s, n) - 1, k)] for b in starts]


def opensoraplan(n, k, s):
    frames = [int(x) for x in np_arange(0, n, FPS / 18) if int(x) < n]
    count = max((c for c in range(1, len(frames) + 1) if (c - 1) % 4 == 0), default=0)
    return frames[:count] if count >= 29 else REFUSED


def decord(n, k, s):
    wanted = [((i * s) % n) - (n if i % 2 else 0) for i in range(k)]
    return [w if w >= 0 else w + n for w in wanted]


def dali(n, k, s):
    return [math.floor(x + 0.5) for x in np_linspace(0, n - 1, k)]


def dali_dense(n, k, s):
    frames, start = [], 0
    while start + s * k <= n:
        frames += [start, start + (k - 1) * s]
        start += s * k
    return frames


def lerobot(n, k, s):
    anchor = n // 2
    return [clamp(anchor + round(d / 20 * FPS), 0, n - 1) for d in range(-k, k + 1, s)]


def cosmos(n, k, s):
    frames, i = [], 0
    while Fraction(i, s) < Fraction(n - 1, 30) + Fraction(1, 2 * s):
        near = range(max(i * 30 // s - 1, 0), min(i * 30 // s + 3, n)) or [n - 1]
        frames.append(min(near, key=lambda f: (abs(Fraction(f, 30) - Fraction(i, s)), f)))
        i += 1
    return frames


def cosmos_windows(n, k, s):
    ends = []
    for start in range(0, n, k):
        if start and n - start < max(k // 2, 1):
            ends[-1] = n
        else:
            ends.append(min(start + k, n))
    return ends


def llava(n, k, s):
    frames = list(range(0, n, max(round(FPS / s), 1)))
    return [int(x) for x in np_linspace(0, n - 1, k)] if len(frames) > k else frames


def diffsynth(n, k, s):
    count = min(4 * k + 3, math.floor(n / FPS * 24))
    while count > 1 and count % 4 != 1:
        count -= 1
    return [min(round(i / 24 * FPS), n - 1) for i in range(max(count, 1))]


def finetrainers(n, k, s):
    return [int(x) for x in torch_linspace(0, n - 1, k)] if k <= n else REFUSED


def wan(n, k, s):
    edges = [i * 1.0 / 30 for i in range(n + 1)]
    times = np_linspace(0.0, 0.0 + k / s, k)
    return [next((f for f in range(n) if edges[f] <= t < edges[f + 1]), 0) for t in times]


def energon(n, k, s):
    length, frames = n / FPS, []
    for start in np_linspace(0.0, length - k / FPS, 3):
        frames += [min(max(int(start * FPS + 1e-6), 0) + j, n - 1) for j in range(k)]
    return frames


def video2dataset(n, k, s):
    return [int(x) for x in np_linspace(0, n - 1, k)]


def daft(n, k, s):
    times, frames, i = [f * 1.0 / 30 for f in range(n)], [], 0
    while i * (1 / s) <= times[-1] + 1e-6:
        frames.append(next(f for f in range(frames[-1] if frames else 0, n) if times[f] + 1e-6 >= i * (1 / s)))
        i += 1
    return frames


REFERENCES = {
    kind.__name__: kind
    for kind in (
        torchcodec, torchcodec_rate, torchvision, torchvision_resample, mmaction2, mmaction2_tsn, mmaction2_uniform,
        mmaction2_target_fps, mmaction2_ava, mmaction2_untrimmed, charades, ssv2, slowfast, vjepa2_overlap, videomae_ssv2,
        pytorchvideo, qwen, qwen_fps, videomae, internvideo, internvideo_fps, opensoraplan, decord, dali, dali_dense,
        lerobot, cosmos, cosmos_windows, llava, diffsynth, finetrainers, wan, energon, video2dataset, daft,
    )
}  # fmt: skip


def crc(frames):
    return zlib.crc32(",".join(map(str, frames)).encode())


def frozen():
    return {name: [crc(reference(*row)) for row in triples()] for name, reference in REFERENCES.items()}


if __name__ == "__main__":
    rows = (f'"{name}": {json.dumps(values, separators=(",", ":"))}' for name, values in frozen().items())
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
