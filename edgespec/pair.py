"""An exported pair, loaded: the API that applications embed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgespec.accept import RULES
from edgespec.contract import Exported, Manifest, Variant, read_manifest
from edgespec.controller import controller
from edgespec.decode import Round, plain, speculate
from edgespec.distribution import Sampling
from edgespec.draft import Draft, ModelDraft, PromptLookup
from edgespec.errors import EdgespecError, UsageError
from edgespec.generation import Ending, Generation, Stream, stream_of
from edgespec.model import Model
from edgespec.randomness import Seeded
from edgespec.runtimes import open_model
from edgespec.tokenizer import GrowingText, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["Pair", "load"]


def load(
    folder: str | Path,
    *,
    threads: int | None = None,
    capacity: int | None = None,
    target_format: str | None = None,
    draft_format: str | None = None,
    allow_inexact: bool = False,
) -> Pair:
    """Opens an exported pair.

    Args:
        folder: written by `edgespec export`.
        threads: for each model; None takes the physical cores.
        capacity: positions that each cache holds; None takes the exporter's choice.
        target_format, draft_format: which exported variant; None takes the first.
        allow_inexact: speculate even on a target that is not row-invariant.

    Raises:
        EdgespecError: the folder is not a pair, is damaged, or cannot be run here.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    format_, variant = _variant(manifest.target, target_format, "target")
    invariance = variant.row_invariance
    target = open_model(
        folder,
        manifest.target,
        format_,
        capacity=capacity,
        threads=threads,
        min_rows=invariance.min_rows if invariance else 2,
    )
    draft = None
    if manifest.draft is not None:
        format_, _ = _variant(manifest.draft, draft_format, "draft")
        draft = open_model(
            folder, manifest.draft, format_, capacity=target.capacity, threads=threads
        )
    exact = bool(invariance and invariance.verdict)
    return Pair(
        manifest,
        load_tokenizer(folder),
        target,
        draft,
        may_speculate=exact or allow_inexact,
        longest_draft=invariance.max_rows - 1 if invariance else 0,
    )


class Pair:
    """A target, perhaps a draft, and their tokenizer; `load` makes it. One text at a time.

    Attributes:
        manifest: what the folder says about itself.
        tokenizer: a `tokenizers.Tokenizer`.
    """

    def __init__(
        self,
        manifest: Manifest,
        tokenizer: Tokenizer,
        target: Model,
        draft: Model | None,
        *,
        may_speculate: bool,
        longest_draft: int,
    ) -> None:
        self.manifest = manifest
        self.tokenizer = tokenizer
        self._target = target
        self._draft = draft
        self._may_speculate = may_speculate
        self._longest_draft = longest_draft
        self._latest: Generation | None = None

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Generation:
        """Generates to the end; takes the options of `stream`."""
        stream = self.stream(prompt, **options)
        for _ in stream:
            pass
        return stream.result

    def stream(
        self,
        prompt: str | Sequence[int],
        *,
        max_new_tokens: int | None = None,
        temperature: float = 0.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        seed: int | None = None,
        gamma: int | str = "auto",
        draft: bool | str = True,
        rule: str = "block",
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        logprobs: bool = False,
        chat: bool = False,
    ) -> Stream:
        """Starts a generation and returns an iterator over its tokens.

        Args:
            prompt: text, or token ids that are used as they are.
            max_new_tokens: None goes on to the end of the text or of the cache.
            temperature, top_k, top_p, min_p: see `Sampling`; temperature 0 is greedy.
            seed: draws the same text again; None takes a new one, found in the result.
            gamma: tokens drafted a round, or "auto".
            draft: True takes the draft model, or prompt lookup where the pair has none; False
                decodes plainly; "model" and "lookup" ask for one kind.
            rule: "block" or "token"; both are exact.
            stop: a string, or strings, that end the text and are not part of it.
            ignore_eos: go on behind an end-of-text token.
            logprobs: report the target's log-probability of each token.
            chat: put the model's own chat format around the prompt.

        Raises:
            UsageError: an argument is out of range, or the prompt is empty or too long.
        """
        if max_new_tokens is not None and max_new_tokens < 1:
            raise UsageError(f"max_new_tokens is {max_new_tokens}; give 1 or more")
        if rule not in RULES:
            raise UsageError(f"rule is {rule!r}; give one of: {', '.join(RULES)}")
        gammas = controller(gamma, self._longest_draft)
        tokens = self._tokens(prompt, chat)
        process = Sampling(temperature, top_k, top_p, min_p)
        randomness = Seeded(seed)
        last_tokens = () if ignore_eos else self.manifest.eos_token_ids
        stops = (stop,) if isinstance(stop, str) else tuple(stop)
        ending = Ending(GrowingText(self.tokenizer, stops), last_tokens)
        limit = self._target.capacity if max_new_tokens is None else max_new_tokens
        drafter = self._drafter(draft, process)
        shared: dict[str, Any] = {
            "process": process,
            "randomness": randomness,
            "max_new_tokens": limit,
            "ends": ending,
        }
        if drafter is None:
            rounds = plain(self._target, tokens, **shared)
        else:
            rounds = speculate(
                self._target, drafter, tokens, rule=RULES[rule], gamma=gammas, **shared
            )
        self._latest = result = Generation(seed=randomness.seed)
        return stream_of(
            self._while_latest(rounds, result),
            ending,
            result,
            max_new_tokens=max_new_tokens,
            model_seconds=self._seconds,
            logprobs=logprobs,
        )

    def _tokens(self, prompt: str | Sequence[int], chat: bool) -> list[int]:
        if not isinstance(prompt, str):
            return [int(token) for token in prompt]
        if not prompt:
            raise UsageError("the prompt is empty; give some text")
        try:
            prompt.encode()
        except UnicodeEncodeError as error:  # bytes that are no text, from a command line
            raise UsageError(
                f"the prompt is not Unicode text at character {error.start}; give it as UTF-8"
            ) from None
        if not chat:
            return list(self.tokenizer.encode(prompt).ids)
        form = self.manifest.chat
        if form is None:
            raise UsageError("this model has no chat format; leave --chat (chat=True) out")
        text = form["before"] + prompt + form["after"]
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def _drafter(self, draft: bool | str, process: Sampling) -> Draft | None:
        if draft is False:
            return None
        if draft not in (True, "model", "lookup"):
            raise UsageError(f"draft is {draft!r}; give True, False, 'model' or 'lookup'")
        if not self._may_speculate:
            raise EdgespecError(
                "this target is not row-invariant on the machine that exported it, so speculation "
                "would change its text; decode with --no-draft (draft=False), export another "
                "format, or load it with allow_inexact=True"
            )
        if draft == "lookup" or (draft is True and self._draft is None):
            return PromptLookup()
        if self._draft is None:
            raise UsageError("the pair was exported without a draft model; use draft 'lookup'")
        return ModelDraft(
            self._draft, process, self._target.vocab_size, self.manifest.eos_token_ids
        )

    def _while_latest(self, rounds: Iterator[Round], result: Generation) -> Iterator[Round]:
        """The caches hold one text: a stream that was overtaken by another must not go on."""
        while self._latest is result:
            round_ = next(rounds, None)
            if round_ is None:
                return
            yield round_
        raise EdgespecError(
            "another text was begun on this pair, which keeps one at a time; finish a stream "
            "before starting the next, or load the pair twice"
        )

    def _seconds(self) -> tuple[float, float]:
        return self._target.seconds, self._draft.seconds if self._draft else 0.0


def _variant(exported: Exported, format_: str | None, role: str) -> tuple[str, Variant]:
    """The variant asked for, or the first."""
    name = format_ or next(iter(exported.variants))
    if name not in exported.variants:
        there = ", ".join(exported.variants)
        raise UsageError(f"the {role} was not exported as {name!r}; there is: {there}")
    return name, exported.variants[name]
