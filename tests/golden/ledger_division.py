"""Writes ledger_division.tsv: who is paid how much of a job, in Python's big
integers and fractions, as a second implementation for
tests/property/ledger_settlement_test.c.

    python3 tests/golden/ledger_division.py > tests/golden/ledger_division.tsv
"""
import hashlib
import random
import uuid
from fractions import Fraction
from math import floor

from ledger_price import LIMITS, price, skewed

FEE_ACCOUNT = 2


def divide(amount, job_tie, parts):
    """Largest remainders over (weight, tie); ties to the smallest xor."""
    whole = sum(weight for weight, _ in parts)
    exact = [Fraction(amount * weight, whole) for weight, _ in parts]
    shares = [floor(share) for share in exact]
    turns = sorted(range(len(parts)),
                   key=lambda i: (shares[i] - exact[i], parts[i][1] ^ job_tie))
    for i in turns[:amount - sum(shares)]:
        shares[i] += 1
    return shares


def reprefill(rates, factor, model, ids):
    _, _, fl, at, _ = model
    flop = min(ids * fl + at * ids * ids, 2 * 10**18)
    return floor(Fraction(factor * rates[0] * flop, 1000 * 10**12))


def division(job, rates, model, n_in, priced, attempts):
    """Shares of the attempts by term, and the legs."""
    first, rest, total, fee, factor = priced
    job_tie = int.from_bytes(hashlib.sha256(job.encode()).digest()[:8], "big")
    prefill, decode = divide(total - fee, job_tie, [(first, 0), (rest, 1)])
    numbers = [a["number"] for a in attempts]
    decodes = divide(decode, job_tie,
                     list(zip([a["ids"] for a in attempts], numbers)))
    leader = next(i for i, a in enumerate(attempts) if a["ids"])
    prefills = [prefill if i == leader else 0 for i in range(len(attempts))]
    again = [reprefill(rates, factor, model, n_in + a["done"])
             if i > leader and a["ids"] else 0 for i, a in enumerate(attempts)]
    if sum(again) > fee:
        again = divide(fee, job_tie, list(zip(again, numbers)))
    legs = [(11, FEE_ACCOUNT, fee - sum(again))]
    for code, amounts in ((10, map(sum, zip(prefills, decodes))), (12, again)):
        for attempt, amount in zip(attempts, amounts):
            parts = [(weight, int(node.replace("-", "")[:16], 16))
                     for node, weight, _ in attempt["members"]]
            legs += [(code, account, share) for (_, _, account), share
                     in zip(attempt["members"],
                            divide(amount, job_tie, parts))]
    legs = [leg for leg in legs if leg[2]]
    assert sum(leg[2] for leg in legs) == total
    return list(zip(prefills, decodes, again)), legs


def random_attempts(rng, count, n_out):
    cuts = sorted(rng.choice((0, n_out, rng.randint(0, n_out)))
                  for _ in range(count - 1))
    attempts, account, number = [], 1000, 0
    for start, end in zip([0] + cuts, cuts + [n_out]):
        number += rng.choice((1, 1, 1, 2))
        members = []
        for _ in range(rng.choice((1, 1, 2, 3, 4))):
            node = str(uuid.UUID(int=rng.getrandbits(128)))
            members.append((node, 1 + skewed(rng, 40), account))
            account += 1
        given = rng.choice((start, start, start, 0, rng.randint(0, start)))
        attempts.append({"number": number, "done": given, "ids": end - start,
                         "members": members})
    return attempts


def random_job(rng):
    """Half of the jobs are like those of a model that people use."""
    usual = rng.random() < 0.5
    if usual:
        rates = (250000, 10000, 1000, rng.choice((0, 1, 50, 50, 50, 1000)))
        classes = [1000, 1050, 1150, 1300, 1500]
        weights = rng.randint(10**8, 10**11)
        model = (weights, rng.randint(10**3, 10**6), 2 * weights,
                 rng.randint(0, 10**6), weights)
        n_in, n_out = rng.randint(1, 4000), rng.randint(1, 2000)
    else:
        rates = (min(skewed(rng, 20), 10**6), min(skewed(rng, 20), 10**6),
                 min(skewed(rng, 30), 10**9), rng.randint(0, 1000))
        classes = [min(skewed(rng, 14), 10**4) for _ in range(5)]
        model = (skewed(rng, 42), skewed(rng, 22), skewed(rng, 44),
                 skewed(rng, 28), skewed(rng, 40))
        n_in, n_out = skewed(rng, 20), 1 + skewed(rng, 18)
    cached = rng.choice((0, 0, rng.randint(0, n_in)))
    return rates, classes, model, n_in, cached, n_out, n_in + n_out


def main():
    rng = random.Random(20261201)
    assert len(LIMITS) == 4
    print("# job a b minimum fee c1..c5 Wb kv fl at weights n_in n_cached "
          "n_out context, attempts, of each: number done ids members, of each: "
          "node weight -> of each attempt: prefill decode reprefill, legs, of "
          "each: code account amount")
    rows = 0
    while rows < 300:
        job = str(uuid.UUID(int=rng.getrandbits(128)))
        rates, classes, model, *counts = random_job(rng)
        priced = price(*rates, classes, model, *counts)
        count = 32 if rows % 60 == 0 else rng.choice((1, 1, 2, 2, 3, 5))
        attempts = random_attempts(rng, count, counts[2])
        if not priced or not priced[2]:
            continue
        shares, legs = division(job, rates, model, counts[0], priced, attempts)
        row = [job, *rates, *classes, *model, *counts, len(attempts)]
        for attempt in attempts:
            row += [attempt["number"], attempt["done"], attempt["ids"],
                    len(attempt["members"])]
            row += [word for member in attempt["members"]
                    for word in member[:2]]
        row += [word for share in shares for word in share]
        row += [len(legs), *(word for leg in legs for word in leg)]
        print(*row)
        rows += 1


if __name__ == "__main__":
    main()
