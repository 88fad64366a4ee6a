"""Tables 3 and 5: α of n-grams and of a pair's draft, on texts of the pair's target."""

from __future__ import annotations

from typing import NamedTuple

from edgespec.core.decode import decoded, speculate
from edgespec.core.distribution_options import Sampling
from edgespec.core.randomness import Seeded
from edgespec.core.sampling import SamplingProcessor
from edgespec.core.stats import Stats, counted
from edgespec.core.verification import token_rule
from edgespec.costs.controller import Fixed
from edgespec.costs.cost_model import expected_tokens
from edgespec.drafters.model_drafter import ModelDrafter
from edgespec_jax.reproduce.acceptance import (
    Alpha,
    DraftDistributions,
    Rows,
    TargetSequence,
    distributions_of,
    measure,
    one_hot_rows,
    texts_of_target,
)
from edgespec_jax.reproduce.material import TASKS, Material
from edgespec_jax.reproduce.ngrams import Bigram, Unigram
from edgespec_jax.reproduce.paper import Paper
from edgespec_jax.reproduce.table_report import Report, Row

__all__ = ["ENOUGH", "Effort", "table3", "table5"]

ENOUGH = 10_000  # tokens the paper measured on
TEMPERATURES = (0, 1)
GAMMA = 3  # of the rounds that check equation 1
ROUND_PROMPTS = 60


class Effort(NamedTuple):
    """How much is measured.

    Attributes:
        tokens: to measure on.
        longest: the largest number of tokens in a text.
        seed: of the sampled texts.
    """

    tokens: int = ENOUGH
    longest: int = 128
    seed: int = 0


def table3(paper: Paper, material: Material, task: str, effort: Effort) -> Report:
    """α at temperatures 0 and 1 next to the paper's, and the tokens per round that follow."""
    alphas = {t: _alphas(material, t, (1.0,), effort) for t in TEMPERATURES}
    rows = [
        {
            "draft": draft,
            "T": t,
            "α, paper": _printed(paper, task, draft, t),
            "α": by_lenience[1.0].mean,
            "±": by_lenience[1.0].error,
            **_rounds(material, draft, t, by_lenience[1.0], effort),
        }
        for t, by_draft in alphas.items()
        for draft, by_lenience in by_draft.items()
    ]
    tokens = min(alpha[1.0].tokens for by_draft in alphas.values() for alpha in by_draft.values())
    notes = [
        *_notes(paper, tokens),
        "equation 1 assumes endless texts; the last round of a text is cut at its end, which "
        "matters in short texts",
    ]
    title = f"Table 3: α on texts of the target, {TASKS[task]}"
    return Report("table3", title, rows, notes, _setting(material, tokens))


def table5(paper: Paper, material: Material, task: str, effort: Effort) -> Report:
    """α with lenience at temperature 1 next to the paper's, which is for English-German."""
    printed = {row["draft"]: row["alpha"] for row in paper.lenience}
    lenience = tuple(float(value) for value in next(iter(printed.values())))
    measured = _alphas(material, 1, lenience, effort)
    rows = []
    for draft, by_lenience in measured.items():
        in_paper = printed.get(draft, {}) if task == "ende" else {}
        row: Row = {"draft": draft}
        for value in lenience:
            row[f"l = {value:g}, paper"] = in_paper.get(f"{value:g}")
            row[f"l = {value:g}"] = by_lenience[value].mean
        row["±, largest"] = max(alpha.error for alpha in by_lenience.values())
        rows.append(row)
    tokens = min(alpha.tokens for a in measured.values() for alpha in a.values())
    notes = [
        *_notes(paper, tokens),
        "lenience is not exact: it trades the target's distribution for accepted tokens",
        "the T=1 speed-ups that the paper prints with this table do not follow from its α",
    ]
    title = "Table 5: α = E Σ min(p/l, q) at T = 1"
    return Report("table5", title, rows, notes, _setting(material, tokens))


def _alphas(
    material: Material, temperature: int, lenience: tuple[float, ...], effort: Effort
) -> dict[str, dict[float, Alpha]]:
    width = material.target.vocab_size
    drafts: dict[str, DraftDistributions] = {
        "unigram": _ngram_distributions(Unigram(material.references, width), temperature),
        "bigram": _ngram_distributions(
            Bigram(material.references, width, material.start), temperature
        ),
    }
    if material.draft is not None:
        drafts[material.draft_name] = distributions_of(
            material.draft, material.vocabulary, temperature
        )
    texts = texts_of_target(
        material.target,
        material.prompts,
        temperature=temperature,
        ends=material.ends,
        tokens=effort.tokens,
        longest=effort.longest,
        seed=effort.seed,
    )
    return measure(texts, drafts, lenience)


def _ngram_distributions(ngram: Unigram | Bigram, temperature: int) -> DraftDistributions:
    def distributions(text: TargetSequence) -> Rows:
        rows = ngram.distributions(text.before)
        return one_hot_rows(rows) if temperature == 0 else rows

    return distributions


def _rounds(material: Material, draft: str, temperature: int, alpha: Alpha, effort: Effort) -> Row:
    """Tokens per round: equation 1 at the measured α, and the mean of real rounds."""
    columns = (f"tokens a round, expected (γ = {GAMMA})", "tokens a round")
    if material.draft is None or draft != material.draft_name:
        return dict.fromkeys(columns)
    stats = Stats()
    process = SamplingProcessor(Sampling(float(temperature)))
    drafter = ModelDrafter(material.draft, process, material.vocabulary, material.ends)
    for index, prompt in enumerate(material.prompts[:ROUND_PROMPTS]):
        rounds = decoded(
            speculate(
                material.target,
                drafter,
                prompt,
                process=process,
                rule=token_rule,
                gamma=Fixed(GAMMA),
                randomness=Seeded(effort.seed + index),
                max_new_tokens=effort.longest,
                ends=set(material.ends).__contains__,
            )
        )
        for _ in counted(rounds, stats, lambda: (material.target.seconds, drafter.seconds)):
            pass
    values = (expected_tokens(alpha.mean, GAMMA), stats.tokens_per_target_call)
    return dict(zip(columns, values, strict=True))


def _printed(paper: Paper, task: str, draft: str, temperature: int) -> float | None:
    """The paper's α, where it has one."""
    for row in paper.alphas:
        if row["task"] == TASKS[task] and row["draft"] == draft:
            return float(row[f"alpha_temperature_{temperature}"])
    return None


def _notes(paper: Paper, tokens: int) -> list[str]:
    notes = [paper.source, "± is the standard error, with texts as units"]
    if tokens < ENOUGH:
        notes.append(f"only {tokens} tokens: the paper used {ENOUGH}")
    return notes


def _setting(material: Material, tokens: int) -> Row:
    return {
        "measured on": material.name,
        "tokens, at least": tokens,
        "n-grams counted on": f"{sum(map(len, material.references))} tokens",
    }
