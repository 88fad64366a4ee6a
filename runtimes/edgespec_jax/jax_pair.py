"""A target and a draft in JAX, and one compiled loop over both.

A second implementation of `edgespec.core.decode` for CPU, GPU and TPU, from the same checkpoints.
It is compiled once for its shapes, γ, rule and kind of distribution, and then runs any prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

import jax
from edgespec.errors import UsageError
from edgespec_jax.jax_blocks import Cache, Params, empty_cache
from edgespec_jax.jax_draws import Draws, Keyed
from edgespec_jax.jax_loop import Loop, run
from edgespec_jax.jax_sequence import JaxSequence, sequence_of
from edgespec_jax.jax_state import Request, Side, State, begin
from edgespec_jax.jax_verification import RULES, Rule
from edgespec_jax.jax_weights import JaxModel
from jax import Array

__all__ = ["JaxDecoder"]

Caches = tuple[tuple[Cache, ...], tuple[Cache, ...]]


class JaxDecoder:
    """Decodes with a target and, where γ > 0, a draft.

    Args:
        target, draft: from `edgespec_jax.jax_weights.load_jax_model`; their number formats may
            differ.
        gamma: tokens drafted per round; 0 decodes without the draft.
        rule: "token", "block", or a function with the signature of `jax_verification.Rule`.
        greedy: one-hot distributions; otherwise each call gives a temperature.
        prompt_capacity, capacity: the largest numbers of tokens in a prompt and in the text.
        ends: token ids that end a text; None: those of the target.

    Attributes:
        traces: how often the loop was compiled; stays 1 for all prompts.
    """

    def __init__(
        self,
        target: JaxModel,
        draft: JaxModel | None = None,
        *,
        gamma: int = 4,
        rule: str | Rule = "block",
        greedy: bool = False,
        prompt_capacity: int = 128,
        capacity: int = 128,
        ends: Sequence[int] | None = None,
    ) -> None:
        if isinstance(rule, str) and rule not in RULES:
            raise UsageError(f"rule is {rule!r}; give one of: {', '.join(RULES)}")
        if gamma < 0 or (gamma > 0 and draft is None):
            raise UsageError(f"gamma is {gamma}; give 0, or a draft and a number above it")
        self._models = (target, draft if gamma else None)
        self.loop = Loop(
            target.network,
            draft.network if draft and gamma else None,
            gamma,
            RULES[rule] if isinstance(rule, str) else rule,
            greedy,
            tuple(target.eos_token_ids if ends is None else ends),
        )
        self.prompt_capacity = prompt_capacity
        self.capacity = capacity
        self.traces = 0
        batched = jax.vmap(self._traced, in_axes=(None, 0, 0, 0, 0))
        self._one = jax.jit(self._traced, donate_argnames="caches")
        self._many = jax.jit(batched, donate_argnames="caches")
        self._caches = self._empty_caches()

    def generate(
        self,
        prompt: Sequence[int],
        *,
        max_new_tokens: int | None = None,
        temperature: float = 1.0,
        draws: Draws | None = None,
    ) -> JaxSequence:
        """Decodes one text.

        Args:
            max_new_tokens: at most `capacity`; None: `capacity`.
            draws: random numbers; None: those of seed 0.

        Raises:
            UsageError: the prompt or the text is longer than the decoder's capacity.
        """
        request = self._request(max_new_tokens, temperature, draws)
        state = self.start(self._padded(prompt), len(prompt), request)
        return sequence_of(
            jax.device_get((state.sequence, state.emitted, state.rounds, state.record))
        )

    def start(self, prompt: Array, length: int, request: Request) -> State:
        """Starts the compiled loop without waiting for its end, so that a benchmark can time it.

        The state's caches belong to the decoder, and the next call reuses their memory.
        """
        state: State = self._one(self._params(), self._caches, prompt, jnp.int32(length), request)
        self._caches = (state.target, state.draft)
        return state

    def generate_batch(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int | None = None,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> list[JaxSequence]:
        """Decodes several texts at once, each with its own lengths and random numbers.

        It is compiled for their number, and the loop runs until the last text has ended.
        """
        keys = jax.random.split(jax.random.key(seed), len(prompts))
        one = self._request(max_new_tokens, temperature, Keyed(keys[0]))
        count = len(prompts)
        request = Request(jnp.full(count, one.limit), jnp.full(count, one.temperature), Keyed(keys))
        caches = jax.tree.map(
            lambda cache: jnp.zeros((count, *cache.shape), cache.dtype), self._caches
        )
        padded = jnp.stack([self._padded(prompt) for prompt in prompts])
        lengths = jnp.array([len(prompt) for prompt in prompts], jnp.int32)
        state = self._many(self._params(), caches, padded, lengths, request)
        states = jax.device_get((state.sequence, state.emitted, state.rounds, state.record))
        return [sequence_of(jax.tree.map(lambda x, i=i: x[i], states)) for i in range(count)]

    def _traced(
        self,
        params: tuple[Params, Params],
        caches: Caches,
        prompt: Array,
        length: Array,
        request: Request,
    ) -> State:
        self.traces += 1  # Python runs this line when JAX traces it, and not when it runs
        loop = self.loop
        context, cache, pending, base = loop.target.prefill(params[0], caches[0], prompt, length)
        target = Side(params[0], context, cache, base)
        draft = None
        if loop.draft is not None:
            known = jnp.where(prompt < loop.draft.vocab_size, prompt, 0)
            context, cache, _, base = loop.draft.prefill(params[1], caches[1], known, length)
            draft = Side(params[1], context, cache, base)
        state = begin(loop.gamma, pending, self.capacity, target, draft)
        return run(loop, state, target, draft, request)

    def _params(self) -> tuple[Params, Params]:
        target, draft = self._models
        return target.params, draft.params if draft else {}

    def _empty_caches(self) -> Caches:
        """Caches with room for the prompt, the text, and a verification from its last token."""
        positions = self.prompt_capacity + self.capacity + self.loop.gamma + 2
        target, draft = (
            empty_cache(model.network, positions, next(iter(model.params.values())).dtype)
            if model
            else ()
            for model in self._models
        )
        return target, draft

    def _padded(self, prompt: Sequence[int]) -> Array:
        if not 0 < len(prompt) <= self.prompt_capacity:
            raise UsageError(
                f"the prompt has {len(prompt)} tokens; give 1 to {self.prompt_capacity}, or make "
                "the decoder with a larger prompt_capacity"
            )
        padded = np.zeros(self.prompt_capacity, np.int32)
        padded[: len(prompt)] = prompt
        return jnp.asarray(padded)

    def _request(self, limit: int | None, temperature: float, draws: Draws | None) -> Request:
        limit = self.capacity if limit is None else limit
        if not 0 < limit <= self.capacity:
            raise UsageError(
                f"max_new_tokens is {limit}; give 1 to {self.capacity}, or make the decoder with "
                "a larger capacity"
            )
        if not self.loop.greedy and temperature <= 0:
            raise UsageError(
                f"temperature is {temperature}; give more than 0, or make the decoder greedy"
            )
        draws = Keyed(jax.random.key(0)) if draws is None else draws
        return Request(jnp.int32(limit), jnp.float32(temperature), draws)
