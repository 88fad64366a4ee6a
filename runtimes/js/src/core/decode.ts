// The two loops: plain decoding, and speculative decoding with the same distribution.
//
// In both, the *pending* token is the last token of the text: emitted (or part of the prompt) but not
// yet in the target's cache. The logits after it give the distribution of the next token. So the
// token that corrects a rejected draft is row 0 of the next verification: one target call per round.

import type { Controller } from "./controller.js";
import { Distribution, type Processor } from "./distribution.js";
import { firstOf, NO_PROPOSAL, type Drafter, type Proposal } from "./draft.js";
import { candidateModelOf, type Candidate, type CandidateModel, type Model, type Range, type Rows } from "./model.js";
import type { Randomness } from "./randomness.js";
import type { Rule, TargetDistributions } from "./verification.js";

/** The result of one target call. */
export interface Round {
  /**
   * Emitted tokens, at least one: `accepted` drafted ones, then the target's correction or bonus,
   * then, if the correction was a candidate, the bonus token after it.
   */
  readonly tokens: readonly number[];
  /** Numbers of proposed tokens, of those that the rule looked at, and of those that were emitted. */
  readonly drafted: number;
  readonly evaluated: number;
  readonly accepted: number;
  /** The target's row for each emitted token; valid until the next round. */
  readonly logits: Rows;
  /** Number of candidates that were emitted: 0 or 1. */
  readonly committed: number;
}

/** What both loops take. */
export interface Decoding {
  readonly target: Model;
  readonly prompt: readonly number[];
  /** A conversation's earlier answers, as in `Model.prefill`. */
  readonly assistantSpans?: readonly Range[] | null;
  /** Turns logits into the distribution p. */
  readonly process: Processor;
  readonly randomness: Randomness;
  readonly maxNewTokens: number;
  /** Called once for every emitted token, in order; says whether the text ends with it. */
  readonly ends: (token: number) => boolean;
  /** The pending token that the text begins with; null for that of `Model.prefill`. */
  readonly start?: number | null;
  /** The token that the text has first, such as that of its language; null leaves it free. */
  readonly first?: number | null;
}

/** What speculation takes besides. */
export interface Speculation extends Decoding {
  readonly draft: Drafter;
  readonly rule: Rule;
  readonly gamma: Controller;
}

/** Plain decoding: one target call per token. `speculate` keeps this distribution. */
export async function* plain(how: Decoding): AsyncGenerator<Round, void, undefined> {
  const { target, process, randomness } = how;
  const ownStart = await target.prefill(how.prompt, how.assistantSpans);
  let pending = how.start ?? ownStart;
  const count = Math.min(how.maxNewTokens, target.capacity - target.length);
  for (let emitted = 0; emitted < count; emitted++) {
    const rows = await target.score([pending]);
    const p = new RowDistributions(rows, process, emitted === 0 ? how.first : null);
    pending = randomness.at(emitted).categorical(p.at(0), 0);
    const ended = how.ends(pending);
    yield { tokens: [pending], drafted: 0, evaluated: 0, accepted: 0, logits: rows.slice(0, 1), committed: 0 };
    if (ended) return;
  }
}

/**
 * Speculative decoding: the draft proposes γ tokens, one target call scores γ + 1 positions.
 *
 * Leviathan, Kalman and Matias (2022), Algorithm 1, with a rule of `verification.ts`. The coupled rule
 * needs `Coupled` randomness, and gives the tokens of `plain` with the same. Candidates are scored in the
 * same call. The correction is drawn as if there were none. If it equals one of them, the distribution
 * after it is known, and a bonus token follows.
 */
export async function* speculate(how: Speculation): AsyncGenerator<Round, void, undefined> {
  const { target, draft, gamma, randomness } = how;
  const candidateModel = candidateModelOf(target);
  const ownStart = await target.prefill(how.prompt, how.assistantSpans);
  const sequence = [how.start ?? ownStart];
  draft.begin(how.prompt);
  let left = Math.min(how.maxNewTokens, target.capacity - target.length);
  while (left > 0) {
    const emitted = sequence.length - 1;
    const draws = randomness.at(emitted);
    const most = Math.min(gamma.gamma(), left - 1);
    const proposal = most > 0 ? firstOf(await draft.propose(sequence, most, draws), most) : NO_PROPOSAL;
    const drafted = proposal.tokens.length;
    const candidates = scoredCandidates(candidateModel, proposal);
    const start = target.length;
    const logits = await target.score([sequence[emitted]!, ...proposal.tokens], candidates);
    const p = new RowDistributions(logits, how.process, emitted === 0 ? how.first : null);
    const result = how.rule(proposal, p, draws);
    const run = [...proposal.tokens.slice(0, result.accepted), draws.categorical(result.next, result.accepted)];
    const rows = [...run.keys()]; // the row of p that each token of the run was drawn from
    const number = numberOf(candidates, { parent: result.accepted, token: run.at(-1)! });
    if (candidateModel !== null && number >= 0) {
      target.rewind(start + run.length);
      candidateModel.commitCandidate(number);
      rows.push(1 + drafted + number);
      run.push(randomness.at(emitted + run.length).categorical(p.at(rows.at(-1)!), 0));
    }
    const [tokens, ended] = untilEnd(run, how.ends);
    target.rewind(start + tokens.length);
    sequence.push(...tokens);
    left -= tokens.length;
    const accepted = Math.min(result.accepted, tokens.length);
    gamma.observe(drafted, result.evaluated, result.accepted, candidates.length);
    yield {
      tokens,
      drafted,
      evaluated: Math.min(result.evaluated, tokens.length),
      accepted,
      logits: tokens.map((_, index) => logits[rows[index]!]!),
      committed: number >= 0 && accepted < tokens.length ? 1 : 0,
    };
    if (ended) return;
  }
}

/** Distributions made from logits, one row at a time, when asked for. */
class RowDistributions implements TargetDistributions {
  readonly #made = new Map<number, Distribution>();

  constructor(
    readonly rows: Rows,
    readonly process: Processor,
    /** The only token of row 0, if it is given. */
    readonly first: number | null | undefined,
  ) {}

  at(row: number): Distribution {
    if (row === 0 && typeof this.first === "number") return new Distribution([this.first], [1]);
    const made = this.#made.get(row) ?? this.process(this.rows[row]!);
    this.#made.set(row, made);
    return made;
  }
}

/** The candidates that the target can score: alternatives to drafted tokens, as many as fit. */
function scoredCandidates(model: CandidateModel | null, proposal: Proposal): readonly Candidate[] {
  if (model === null || proposal.candidates.length === 0) return [];
  const count = proposal.tokens.length;
  const candidates = proposal.candidates.filter(({ parent }) => parent >= 0 && parent < count);
  return candidates.slice(0, model.candidateRoom(1 + count));
}

function numberOf(candidates: readonly Candidate[], wanted: Candidate): number {
  return candidates.findIndex(({ parent, token }) => parent === wanted.parent && token === wanted.token);
}

/** The tokens up to the one that ends the text, which may be an accepted one. */
function untilEnd(run: readonly number[], ends: (token: number) => boolean): readonly [readonly number[], boolean] {
  for (const [index, token] of run.entries()) {
    if (ends(token)) return [run.slice(0, index + 1), true];
  }
  return [run, false];
}
