# SPDX-License-Identifier: BSD-3-Clause
"""A rank that is slower than the others, by times that a seed repeats."""
import random


class Straggler:
    """A rank that is late with its gradients: RANK:DISTRIBUTION:MILLISECONDS, drawn for each step. fixed, exponential (the mean),
    lognormal (the median, sigma 1), pareto (the least, shape 1.5) or tenth (the time in one step of each ten, at a place that is drawn,
    and none in the others: in short runs, too, a tenth of the steps stall); 20 times the given time at most."""

    def __init__(self, said):
        try:
            rank, self.distribution, scale = said.split(":")
            self.rank, self.scale_s = int(rank), float(scale) / 1e3
            next(self.times(random.Random(0)))
        except (ValueError, KeyError) as error:
            raise ValueError(f"{said!r} is not RANK:DISTRIBUTION:MILLISECONDS, as in 3:exponential:50") from error
        self.said = said

    def times(self, dice):
        """Seconds of one step after the other."""
        if self.distribution == "tenth":
            while True:
                place = dice.randrange(10)
                yield from (self.scale_s if at == place else 0.0 for at in range(10))
        draw = {"fixed": lambda: 1.0, "exponential": lambda: dice.expovariate(1), "lognormal": lambda: dice.lognormvariate(0, 1),
                "pareto": lambda: dice.paretovariate(1.5)}[self.distribution]
        while True:
            yield self.scale_s * min(20.0, draw())
