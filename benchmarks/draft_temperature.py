"""How often a draft agrees with the target in sampled text, by the draft's own temperature.

    python benchmarks/draft_temperature.py build/smollm2 --target-format int8

The coupled rule keeps the text whatever q is, so the draft's temperature is free. At each position
of texts that the target wrote: the probability that both choose one token by the same noise
(`agreement`), in closed form; beside it what the token rule accepts, the sum of min(p, q), and how
often the arg-maxes are one. "Chosen": how often both did choose one by the noise of the text.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import edgespec
from edgespec.core.distribution import Distribution
from edgespec.core.distribution_options import Sampling
from edgespec.core.randomness import Coupled
from edgespec.core.sampling import SamplingProcessor
from edgespec.measure.predict import agreement
from peers.prompts import Request, first_of_kinds, of_file
from record import begin, write_result

PROMPTS = Path(__file__).with_name("prompts") / "six_kinds.json"
TEMPERATURES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2)  # of the draft


def overlap(p: Distribution, q: Distribution) -> float:
    """The sum of min(p, q): what the token rule accepts."""
    return sum(float(min(p.of(token), q.of(token))) for token in p.tokens.tolist())


def found(
    pair: edgespec.Pair, request: Request, seed: int, sampling: Sampling, limit: int
) -> dict[str, list[float]]:
    """For each position of a text, by what it is."""
    assert pair.draft is not None
    prompt = pair.encode(request.prompt, chat=True)
    text = pair.generate(
        prompt,
        draft=False,
        max_new_tokens=min(limit, request.max_new_tokens),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=seed,
    ).token_ids
    rows = pair.target.score([pair.target.prefill(prompt), *text[:-1]]).copy()
    pending = pair.draft.prefill(pair.vocabulary.prompt(prompt, None)[0])
    guesses = pair.draft.score([pending, *pair.vocabulary.to_draft_ids(text[:-1])])
    process = SamplingProcessor(sampling)
    every = [process(row) for row in rows]
    noise = Coupled(seed, len(prompt))
    at: dict[str, list[float]] = defaultdict(list)
    at["token rule"] = [
        overlap(p, pair.vocabulary.distribution(process, guess))
        for p, guess in zip(every, guesses, strict=True)
    ]
    tops = [pair.vocabulary.to_target_ids([int(guess.argmax())])[0] for guess in guesses]
    at["arg-max"] = [float(row.argmax() == top) for row, top in zip(rows, tops, strict=True)]
    at["arg-max of q is the token"] = [float(a == b) for a, b in zip(text, tops, strict=True)]
    for temperature in TEMPERATURES:
        for top_p in (sampling.top_p, 1.0):
            own = SamplingProcessor(Sampling(temperature=temperature, top_p=top_p))
            qs = [pair.vocabulary.distribution(own, guess) for guess in guesses]
            name = f"{temperature}, {top_p}"
            at[name] = [agreement(p, q) for p, q in zip(every, qs, strict=True)]
            at[f"{name} chosen"] = [
                float(noise.at(start).categorical(q, 0) == token)
                for start, (q, token) in enumerate(zip(qs, text, strict=True))
            ]
    return at


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pair", type=Path)
    parser.add_argument("--target-format")
    parser.add_argument("--each", type=int, help="use so many prompts of each kind")
    parser.add_argument("--limit", type=int, default=96, help="of new tokens")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--seeds", type=int, default=2)
    options, record = begin(parser)
    pair = edgespec.load(options.pair, threads=options.threads, target_format=options.target_format)
    sampling = Sampling(temperature=options.temperature, top_p=options.top_p)
    by_kind: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for request in first_of_kinds(of_file(PROMPTS), options.each):
        for seed in range(options.seeds):
            for name, values in found(pair, request, seed, sampling, options.limit).items():
                by_kind[request.kind][name] += values
    rows = {
        name: {kind: float(np.mean(found[name])) for kind, found in by_kind.items()}
        for name in next(iter(by_kind.values()))
    }
    for name, kinds in rows.items():
        print(f"{name:28} mean {mean(list(kinds.values())):.3f}", _rounded(kinds))
    write_result(options, record, rows=rows)


def mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _rounded(kinds: dict[str, float]) -> dict[str, float]:
    return {kind: round(value, 3) for kind, value in kinds.items()}


if __name__ == "__main__":
    main()
