"""Writes ledger_price.tsv: the price formula in Python's big integers and
fractions, as a second implementation for tests/property/ledger_price_test.c.

    python3 tests/golden/ledger_price.py > tests/golden/ledger_price.tsv
"""
import random
from fractions import Fraction
from math import ceil, floor

LIMITS = (12 * 10**9, 40 * 10**9, 96 * 10**9, 192 * 10**9)


def price(a, b, minimum, fee, classes, model, n_in, cached, n_out, context):
    wb, kv, fl, at, weights = model
    moved = n_out * wb + kv * sum(range(n_in + 1, n_in + n_out + 1)) \
        if n_out < 5000 else \
        n_out * wb + kv * (n_out * n_in + n_out * (n_out + 1) // 2)
    flop = (n_in - cached) * fl + at * (n_in**2 - cached**2)
    if moved > 2 * 10**18 or flop > 2 * 10**18:
        return None
    resident = weights + kv * context
    factor = classes[sum(resident > limit for limit in LIMITS)]
    prefill = Fraction(factor, 1000) * a * Fraction(flop, 10**12)
    decode = Fraction(factor, 1000) * b * Fraction(moved, 10**9)
    total = ceil(prefill + decode)
    first = ceil(prefill)
    if total < minimum:
        total = minimum
        first = total
        if prefill + decode:
            first = ceil(total * prefill / (prefill + decode))
    if total > 10**15:
        return None
    return first, total - first, total, floor(Fraction(total * fee, 1000)), \
        factor


def skewed(rng, bits):
    return rng.getrandbits(rng.randint(0, bits))


def main():
    rng = random.Random(20261130)
    print("# a b minimum fee c1..c5 Wb kv fl at weights n_in n_cached n_out "
          "context -> prefill decode total fee class, or -")
    for _ in range(600):
        rates = (min(skewed(rng, 20), 10**6), min(skewed(rng, 20), 10**6),
                 min(skewed(rng, 30), 10**9), rng.randint(0, 1000))
        classes = [min(skewed(rng, 14), 10**4) for _ in range(5)]
        model = (skewed(rng, 42), skewed(rng, 22), skewed(rng, 44),
                 skewed(rng, 24), skewed(rng, 40))
        n_in = skewed(rng, 20)
        cached = rng.randint(0, n_in)
        n_out = skewed(rng, 18)
        context = n_in + n_out + skewed(rng, 10)
        answer = price(*rates, classes, model, n_in, cached, n_out, context)
        print(*rates, *classes, *model, n_in, cached, n_out, context,
              *(answer if answer else ("-",)))


if __name__ == "__main__":
    main()
