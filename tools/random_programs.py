"""Random programs under every transformation, until told to stop.

    python tools/random_programs.py --count 20000 --seed 0 [--jobs N] [--stop-after K] [--quick]

For each program (tests/random_transforms.py) the properties of tests/check_transforms.py are checked. A program that breaks one is
shrunk and printed as source that runs; the last line sums up. Exit status 1 if any failed."""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from check_transforms import check, kind, random_program, report  # noqa: E402  found by the line above

CHUNK = 25


def run(task: tuple[int, int, int, bool]) -> tuple[list[tuple[str, str]], collections.Counter[str]]:
    """Of a task (first seed, how many programs, how far to shrink, whether quick): failures (kind, text), and what was counted."""
    first, count, shrinking, quick = task
    failures, counts = [], collections.Counter()
    for seed in range(first, first + count):
        try:
            program = random_program(seed, 4 if quick else 7)
            check(program, counts, quick=quick)
        except Exception as e:
            failures.append((kind(e), report(program, e, shrinking, quick=quick)))
        counts["programs"] += 1
    return failures, counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20000, help="how many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first one's seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    parser.add_argument("--stop-after", type=int, default=0, help="stop after so many failures (0: never)")
    parser.add_argument("--shrink", type=int, default=400, help="how many smaller programs are tried for each failure")
    parser.add_argument("--quick", action="store_true", help="smaller programs, fewer properties of each, as in the test-suite")
    options = parser.parse_args()
    start = time.monotonic()
    kinds: collections.Counter[str] = collections.Counter()
    totals: collections.Counter[str] = collections.Counter()
    end = options.seed + options.count
    tasks = [(k, min(CHUNK, end - k), options.shrink, options.quick) for k in range(options.seed, end, CHUNK)]
    # processes live for a while only, so that what compiled programs hold is given back
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=20) as pool:
        for failures, counts in pool.imap_unordered(run, tasks):
            totals += counts
            for name, text in failures:
                kinds[name] += 1
                print(text, flush=True)
            if totals["programs"] % 500 == 0:
                print(
                    f"{totals['programs']} programs, {kinds.total()} failures, {time.monotonic() - start:.0f} s",
                    file=sys.stderr,
                    flush=True,
                )
            if options.stop_after and kinds.total() >= options.stop_after:
                break
    for name, n in kinds.most_common():
        print(f"{n:6} {name}")
    passed = ", ".join(f"{n} {name}" for name, n in sorted(totals.items()) if name != "programs")
    seconds = time.monotonic() - start
    print(f"{totals['programs']} programs from seed {options.seed}: {kinds.total()} failures; comparisons: {passed}; {seconds:.0f} s")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
