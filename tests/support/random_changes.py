"""Inputs changed at random, the same way each time: for tests that something holds for whatever comes."""
import random


def changed(data, other, draw):
    """`data` with one change: bytes flipped, put in, taken out, repeated or taken from `other`."""
    at = draw.randrange(len(data) + 1)
    end = min(len(data), at + draw.randint(1, 8))
    byte = bytes([draw.randrange(256)])
    part = draw.randrange(len(other) + 1)
    return data[:at] + draw.choice([
        lambda: bytes(one ^ 1 << draw.randrange(8) for one in data[at:at + 1]) + data[at + 1:],
        lambda: byte + data[at + 1:],
        lambda: byte * draw.randint(1, 4) + data[at:],
        lambda: data[end:],
        lambda: data[at:end] + data[at:],
        lambda: other[part:part + draw.randint(1, 64)] + data[at:],
    ])()


def changes(inputs, count, seed=1):
    """The inputs, and `count` of them with one to four changes each."""
    yield from inputs
    draw = random.Random(seed)
    for _ in range(count):
        data = draw.choice(inputs)
        for _ in range(draw.randint(1, 4)):
            data = changed(data, draw.choice(inputs), draw)
        yield data
