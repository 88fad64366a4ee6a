"""A pair as a model of lm-evaluation-harness: its tasks score texts and generate greedily.

pip install lm_eval
python examples/lm_eval_model.py build/smollm2 lambada_openai 100
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from lm_eval.api.model import LM

import edgespec

NEW_TOKENS = 256  # where a task does not say how many


class EdgespecLM(LM):  # type: ignore[misc]  # lm_eval has no types
    """Scores with the target alone, generates with the draft: neither changes a number or a text.

    Contexts that are too long for the cache lose their beginning, as in other models of lm_eval.

    Args:
        prefix: the token before a text that begins. Default: what the tokenizer puts there, else
            the end of a text. lm_eval's own models take the checkpoint's bos_token, also of models
            whose tokenizers put none: give its id to compare such numbers.
    """

    def __init__(self, pair: edgespec.Pair, prefix: int | None = None) -> None:
        super().__init__()
        self._pair = pair
        self._room = pair.target.capacity
        own = pair.manifest.eos_token_ids[:1] if prefix is None else [prefix]
        self._prefix = (self._beginning() if prefix is None else []) or own

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Of each continuation after its context, and whether greedy decoding would write it."""
        return [self._scored(*request.args) for request in requests]

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """Of each whole text, each token once, after as many tokens as the cache holds."""
        return [sum(self._windows(request.args[0])) for request in requests]

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """What follows each context, up to one of its stop strings."""
        return [self._generated(*request.args) for request in requests]

    def _scored(self, context: str, continuation: str) -> tuple[float, bool]:
        kept = context.rstrip()  # a token may begin with the space between them
        continuation = context[len(kept) :] + continuation
        if self._pair.manifest.target.is_encoder_decoder:
            scores = self._pair.score(continuation, prompt=context)
            return scores.logprob, all(scores.is_best)
        if kept:
            before, whole = self._encoded(kept), self._encoded(kept + continuation)
        else:
            before, whole = [*self._prefix], [*self._prefix, *self._encoded_alone(continuation)]
        count = min(len(before), len(whole) - 1)
        text = whole[count:]
        scores = self._pair.score(text, prompt=whole[:count][len(text) - self._room :])
        return scores.logprob, all(scores.is_best)

    def _windows(self, text: str) -> Iterator[float]:
        tokens = self._encoded_alone(text)
        new = self._room - 1  # tokens of a window after its first context token
        for begin in range(0, len(tokens), new):
            end = min(begin + new, len(tokens))
            before = [*self._prefix, *tokens[:begin]]
            first = max(0, len(before) + end - begin - self._room)
            yield self._pair.score(tokens[begin:end], prompt=before[first:]).logprob

    def _generated(self, context: str, options: dict[str, Any]) -> str:
        until = options.get("until") or []
        stop = [until] if isinstance(until, str) else list(until)
        drawn = options.get("do_sample") and {"temperature": options.get("temperature", 1.0)}
        most = min(options.get("max_gen_toks", NEW_TOKENS), self._room - 1)
        prompt: str | list[int] = context
        if not self._pair.manifest.target.is_encoder_decoder:
            prompt = self._encoded(context)[most - self._room :]
        made = self._pair.generate(
            prompt, stop=stop, max_new_tokens=most, **(drawn or {"temperature": 0.0})
        )
        return made.text

    def _beginning(self) -> list[int]:
        """What the tokenizer puts before a text of a decoder."""
        if self._pair.manifest.target.is_encoder_decoder:
            return []
        alone, whole = self._encoded_alone("a"), self._encoded("a")
        before = len(whole) - len(alone)
        return whole[:before] if whole[before:] == alone else []

    def _encoded(self, text: str) -> list[int]:
        """Token ids as they begin a text; lm-eval itself asks for a chat format."""
        return list(self._pair.encode(text, chat=False))

    def _encoded_alone(self, text: str) -> list[int]:
        """Token ids without special tokens around them."""
        return list(self._pair.tokenizer.encode(text, add_special_tokens=False).ids)


def main(folder: str, tasks: str, limit: str = "100", prefix: str | None = None) -> None:
    from lm_eval import simple_evaluate

    model = EdgespecLM(edgespec.load(folder), None if prefix is None else int(prefix))
    found = simple_evaluate(model, tasks=tasks.split(","), limit=int(limit))
    for task, numbers in found["results"].items():
        print(task, {name: value for name, value in numbers.items() if isinstance(value, float)})


if __name__ == "__main__":
    main(*sys.argv[1:])
