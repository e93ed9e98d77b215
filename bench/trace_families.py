#!/usr/bin/python3
"""trace_families.py: the three synthetic families of streaming traces, as a module.

Declared synthetic: nobody played a game for them. Each is a pure function of the number of requests.

  startup     clumps of 16 requests every 10 ms: many small files whole, now and then a piece of a large one; critical and high
  transition  clumps of 24 every 16 ms: pieces of 16 to 256 KiB of all classes of priority; a quarter is cancelled at once, as when
              the player turns back at a door
  background  one request every 1.5 ms: 4 to 64 KiB in the background, each eighth a small one of high priority in between

Format of a trace: bench/stream_bench/trace.h.
"""
import random

PRIORITY_CRITICAL, PRIORITY_HIGH, PRIORITY_NORMAL, PRIORITY_BACKGROUND = range(4)
REQUESTS_MAX = 4096
LENGTH_MAX = 1024 * 1024
MS = 1_000_000

# The corpus of the families: 64 small files, 16 of 256 KiB, 8 of 2 MiB.
SMALL_SIZES = (4096, 6000, 12288, 20480, 32768, 49152, 65536, 9001)
CLASSES = ("compressible", "half", "random")


def family_files():
    """[(path, size)]: the files that the families read."""
    return [(f"small/{i:03}.bin", SMALL_SIZES[i % len(SMALL_SIZES)]) for i in range(64)] + \
        [(f"medium/{i:02}.bin", 256 * 1024) for i in range(16)] + [(f"large/{i}.bin", 2 * 1024 * 1024) for i in range(8)]


class Dice:
    """Numbers that stay the same whatever the version of Python: only random() is used."""

    def __init__(self, seed):
        self.source = random.Random(seed)

    def below(self, count):
        return int(self.source.random() * count)

    def piece(self, files, indexes, least, most):
        """(file, offset, length) of a piece of one of the files, at a multiple of 512."""
        index = indexes[self.below(len(indexes))]
        size = files[index][1]
        length = min(size, least + self.below(most - least + 1))
        return index, self.below((size - length) // 512 + 1) * 512, length


def startup(count, files, small, other):
    dice = Dice("startup")
    for i in range(count):
        release = i // 16 * 10 * MS + i % 16 * 1000
        if i % 12 == 11:
            yield release, *dice.piece(files, other, 128 * 1024, LENGTH_MAX), PRIORITY_HIGH, 0
        else:
            index = small[i % len(small)]
            yield release, index, 0, files[index][1], PRIORITY_CRITICAL if i % 3 == 0 else PRIORITY_HIGH, 0


def transition(count, files, _small, other):
    dice = Dice("transition")
    for i in range(count):
        release = i // 24 * 16 * MS + i % 24 * 500
        yield release, *dice.piece(files, other, 16 * 1024, 256 * 1024), i % 4, int(dice.below(4) == 0)


def background(count, files, small, other):
    dice = Dice("background")
    for i in range(count):
        release = i * 3 * MS // 2
        if i % 8 == 7:
            index = small[dice.below(len(small))]
            yield release, index, 0, min(4096, files[index][1]), PRIORITY_HIGH, 0
        else:
            yield release, *dice.piece(files, other, 4096, 64 * 1024), PRIORITY_BACKGROUND, 0


FAMILIES = {"startup": startup, "transition": transition, "background": background}


def trace_text(rows):
    """Rows (release, file, offset, length, priority, cancel) as a trace."""
    rows = list(rows)
    if not 0 < len(rows) <= REQUESTS_MAX:
        raise ValueError(f"{len(rows)} requests, 1 to {REQUESTS_MAX} may be")
    return f"fs-r2 1 {len(rows)}\n" + "".join(" ".join(map(str, row)) + "\n" for row in rows)


def family_text(name, count):
    """A family as a trace."""
    files = family_files()
    small = [i for i, (path, _) in enumerate(files) if path.startswith("small/")]
    other = [i for i, (path, _) in enumerate(files) if not path.startswith("small/")]
    return trace_text(FAMILIES[name](count, files, small, other))
