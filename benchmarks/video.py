"""Video: SSIM, PSNR and differences of every frame, beside decoding alone and beside the same loop over scikit-image.

    .venv/bin/python benchmarks/video.py [--frames 121] [--rounds 3] [--peer-frames 8] [--crf 10]

A pan over a photograph, 1280x720, and the same with noise, both H.264 at a quality that keeps the noise. Every figure
is a ratio within this run: decoding alone, we and the peer take turns, best of the rounds in wall time, with the best
processor time beside it. The peer measures the first frames of the same files, decoding included, and its time for
each frame counts. Two threads each: of the decoders and of our metrics; scikit-image has none, and a pool of two is
shown too. Memory is the peak of a process of its own. Both engines are measured, each in a process of its own. Exits 1
when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import av
import numpy as np
from PIL import Image
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from paritygate.media.video import open_video
from paritygate.metrics import kernel, video

HEIGHT, WIDTH, RATE, THREADS = 720, 1280, 24, 2
NAMES = ("ssim", "psnr_db", *(f"abs_diff_{what}" for what in ("max", "mean", "p50", "p90", "p95", "p99", "p999")))
OURS, PEER = "SSIM + PSNR + differences", "scikit-image"
#: engine -> highest allowed ratio to decoding alone, lowest allowed ratio of the peer to us.
GOALS = {"kernel": (2.5, 15.0), "numpy": (7.0, 5.0)}
#: Highest allowed peak in MiB, and how much more a clip ten times as long may take: the numbers of its frames.
MEMORY_GOAL_MIB, GROWTH_GOAL_MIB = 300.0, 8.0
TIMES_LONGER = 10
#: Passes over the short clip, so that its peak is that of a settled allocator.
SETTLING = 3


def pictures(count: int, *, noise: float) -> Iterator[np.ndarray]:
    """A pan over a photograph."""
    size = (WIDTH + 3 * count, HEIGHT + 2 * count)
    photograph = np.asarray(Image.fromarray(data.coffee()).resize(size, Image.Resampling.LANCZOS))
    rng = np.random.default_rng(0)
    grain = rng.normal(0, noise, (HEIGHT, 2 * WIDTH, 3)).astype(np.float32)
    for index in range(count):
        frame = photograph[2 * index : 2 * index + HEIGHT, 3 * index : 3 * index + WIDTH]
        shift = int(rng.integers(WIDTH))
        yield np.rint(np.clip(frame + grain[:, shift : shift + WIDTH], 0, 255)).astype(np.uint8)


def encode(path: Path, frames: Iterator[np.ndarray], *, crf: int) -> None:
    """H.264 in MP4, 4:2:0; a constant rate factor of 10 keeps noise of two levels."""
    with av.open(str(path), "w") as output:
        stream = output.add_stream("libx264", rate=RATE, options={"crf": str(crf), "preset": "veryfast"})
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        for frame in frames:
            output.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        output.mux(stream.encode(None))


def repeat(path: Path, longer: Path, times: int) -> None:
    """The same packets again and again: a long clip without encoding one."""
    with av.open(str(longer), "w") as output:
        stream = None
        for turn in range(times):
            with av.open(str(path)) as source:
                video_stream = source.streams.video[0]
                stream = stream or output.add_stream_from_template(video_stream)
                for packet in source.demux(video_stream):
                    if packet.size:
                        packet.pts += turn * video_stream.duration
                        packet.dts += turn * video_stream.duration
                        packet.stream = stream
                        output.mux(packet)


def decode(reference: Path, candidate: Path) -> int:
    """Both clips to RGB arrays and nothing else, with PyAV alone."""
    with av.open(str(reference)) as left, av.open(str(candidate)) as right:
        for source in (left, right):
            source.streams.video[0].thread_type = "AUTO"
            source.streams.video[0].thread_count = THREADS
        count = 0
        for pair in zip(left.decode(video=0), right.decode(video=0), strict=True):
            for frame in pair:
                frame.to_ndarray(format="rgb24")
            count += 1
    return count


def ours(reference: Path, candidate: Path, names: tuple[str, ...] = NAMES) -> dict[str, tuple[object, ...]]:
    """What `paritygate compare` does with two clips."""
    with open_video(reference, threads=THREADS) as left, open_video(candidate, threads=THREADS) as right:
        pairs = video.pairs(left, right)
        return video.measure(names, pairs, data_range=255.0, mode="RGB", threads=THREADS)


def peer_frame(pair: tuple[np.ndarray, np.ndarray]) -> tuple[float, ...]:
    """The same numbers of one frame with scikit-image and NumPy."""
    reference, candidate = pair
    similarity = structural_similarity(
        reference, candidate, channel_axis=2, data_range=255, gaussian_weights=True, sigma=1.5,
        use_sample_covariance=False,
    )  # fmt: skip
    ratio = peak_signal_noise_ratio(reference, candidate, data_range=255)
    apart = np.abs(reference.astype(np.int16) - candidate) / 255
    shares = np.percentile(apart, (50, 90, 95, 99, 99.9))
    return similarity, ratio, apart.max(), apart.mean(), *shares


def peer(reference: Path, candidate: Path, count: int, threads: int) -> list[tuple[float, ...]]:
    """The first frames in a loop over scikit-image."""
    with open_video(reference, threads=THREADS) as left, open_video(candidate, threads=THREADS) as right:
        pairs = islice(zip(left, right, strict=True), count)
        if threads == 1:
            return list(map(peer_frame, pairs))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(peer_frame, pairs))


def seconds(run: Callable[[], object]) -> np.ndarray:
    """Wall and processor time of one call."""
    start = np.array([time.perf_counter(), time.process_time()])
    run()
    return np.array([time.perf_counter(), time.process_time()]) - start


def peak_mib() -> float:
    """The most memory this process has had at once, libraries and all."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def in_child(engine: str, mode: str, *arguments: object) -> dict[str, object]:
    """This script in a process of its own, with or without the kernel."""
    environment = {**os.environ, "PARITYGATE_KERNEL": "off" if engine == "numpy" else "on"}
    command = [sys.executable, __file__, "--child", mode, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def child(mode: str, reference: Path, candidate: Path, rounds: int, peer_frames: int) -> dict[str, object]:
    """Times of all in turns, those of the peer for as many frames as we have; or memory of our passes."""
    if mode == "memory":
        for _ in range(rounds):
            values = ours(reference, candidate)
        return {"frames": len(values["ssim"]), "mib": peak_mib()}
    frames = decode(reference, candidate)
    scale = frames / peer_frames
    runs = {
        "decoding alone": (1.0, lambda: decode(reference, candidate)),
        OURS: (1.0, lambda: ours(reference, candidate)),
        "the whole default set": (1.0, lambda: ours(reference, candidate, video.default_names("RGB"))),
        PEER: (scale, lambda: peer(reference, candidate, peer_frames, 1)),
        f"{PEER} in a pool of {THREADS}": (scale, lambda: peer(reference, candidate, peer_frames, THREADS)),
    }
    best = {name: np.full(2, np.inf) for name in runs}
    for _ in range(rounds):
        for name, (factor, run) in runs.items():
            best[name] = np.minimum(best[name], factor * seconds(run))
    return {"engine": kernel.engine(), "times": {name: list(pair) for name, pair in best.items()}}


def check_agreement(reference: Path, candidate: Path, peer_values: list[tuple[float, ...]]) -> None:
    """A fast answer must also be the right one."""
    found = ours(reference, candidate)
    for index, (similarity, ratio, largest, mean, *_) in enumerate(peer_values):
        expected = {"ssim": similarity, "psnr_db": ratio, "abs_diff_max": largest, "abs_diff_mean": mean}
        for name, value in expected.items():
            assert abs(found[name][index].number - value) < 1e-7, (name, index)


def report(engine: str, measured: dict[str, object], frames: int) -> bool:
    """Print the rows of one engine; True when its goals are met."""
    times = measured["times"]
    to_decode, to_peer = GOALS[engine]
    (decoding, _), (mine, _) = times["decoding alone"], times[OURS]
    goals = {OURS: f"  (goal: at most {to_decode})", PEER: f"  (goal: at least {to_peer} of us)"}
    print(f"\n{measured['engine']}, {frames} frames, {THREADS} threads")
    print(f"  {'':<32}    wall  of decoding    of us   processor")
    for name, (wall, processor) in times.items():
        print(
            f"  {name:<32} {wall:5.2f} s {wall / decoding:10.2f}x {wall / mine:7.2f}x {processor:9.2f} s"
            f"{goals.get(name, '')}"
        )
    return mine / decoding <= to_decode and times[PEER][0] / mine >= to_peer


def main() -> int:
    """Print the tables; 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=121)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-frames", type=int, default=8)
    parser.add_argument("--crf", type=int, default=10)
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        mode, reference, candidate, rounds, count = arguments.child
        print(json.dumps(child(mode, Path(reference), Path(candidate), int(rounds), int(count))))
        return 0
    engines = ["kernel", "numpy"] if kernel.library() is not None else ["numpy"]
    met = True
    with tempfile.TemporaryDirectory() as folder:
        clips = [Path(folder) / f"{name}.mp4" for name in ("reference", "candidate")]
        for clip, noise in zip(clips, (0.0, 2.0), strict=True):
            encode(clip, pictures(arguments.frames, noise=noise), crf=arguments.crf)
            print(f"{clip.name}: {clip.stat().st_size * 8 * RATE / arguments.frames / 1e6:.1f} Mbit/s")
        count = min(arguments.peer_frames, arguments.frames)
        check_agreement(*clips, peer(*clips, 2, 1))
        for engine in engines:
            measured = in_child(engine, "time", *clips, arguments.rounds, count)
            met &= report(engine, measured, arguments.frames)
        longer = [clip.with_name(f"long-{clip.name}") for clip in clips]
        for clip, long in zip(clips, longer, strict=True):
            repeat(clip, long, TIMES_LONGER)
        print()
        for engine in engines:
            once, often = (
                in_child(engine, "memory", *pair, rounds, count) for pair, rounds in ((clips, SETTLING), (longer, 1))
            )
            growth = float(often["mib"]) - float(once["mib"])
            print(
                f"memory, {engine:<6}  {once['frames']} frames {once['mib']:.0f} MiB (goal {MEMORY_GOAL_MIB:.0f}), "
                f"{often['frames']} frames {growth:+.1f} MiB (goal {GROWTH_GOAL_MIB:.0f})"
            )
            met &= float(often["mib"]) < MEMORY_GOAL_MIB and growth <= GROWTH_GOAL_MIB
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
