// The mathematics of verification: acceptance probability, residual, the token, block and coupled rules.
//
// The draft proposed x_1 … x_γ with x_i ~ q_i. The target gives p_1 … p_{γ+1}, where p_i is its
// distribution at the position of x_i. A rule decides how many proposed tokens are accepted and which
// distribution the next token is drawn from. With every rule the output has exactly the target's
// distribution.

import { ModelError } from "../errors.js";
import { Distribution, oneHot } from "./distribution.js";
import type { Proposal } from "./draft.js";
import type { Randomness } from "./randomness.js";

/** How many proposed tokens are accepted, and the distribution of the token after them. */
export interface VerificationResult {
  readonly accepted: number;
  /** The accepted tokens and the first rejected one; the acceptance rate is accepted / evaluated. */
  readonly evaluated: number;
  /** Of the correction or of the bonus token. */
  readonly next: Distribution;
}

/** p_1 … p_{γ+1}, each computed when it is asked for: after a rejection, no later one is. */
export interface TargetDistributions {
  at(row: number): Distribution;
}

export interface Rule {
  (proposal: Proposal, p: TargetDistributions, randomness: Randomness): VerificationResult;
}

/**
 * Distribution of the token that replaces a rejected one: norm(max(0, weight · p − q)).
 *
 * Where p ≤ q everywhere up to rounding, nothing is left. The rejection that asked for it had
 * probability zero up to rounding, and p itself is returned. A one-hot p is returned as it is.
 */
export function residual(p: Distribution, q: Distribution, weight = 1): Distribution {
  if (p.size === 1) return p;
  const left = excess(p, q, weight);
  return sum(left) > 0 ? new Distribution(p.tokens, left) : p;
}

/** max(0, weight · p − q) over the tokens of p: [k]. */
function excess(p: Distribution, q: Distribution, weight: number): Float32Array {
  const left = new Float32Array(p.size);
  const factor = Math.fround(weight);
  for (let i = 0; i < left.length; i++) left[i] = factor * p.probabilities[i]!;
  for (let i = 0; i < q.size; i++) {
    const index = p.indexOf(q.token(i));
    if (index >= 0) left[index] = left[index]! - q.probabilities[i]!;
  }
  for (let i = 0; i < left.length; i++) left[i] = Math.max(0, left[i]!);
  return left;
}

function sum(values: ArrayLike<number>): number {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i]!;
  return total;
}

/** p(token) / q(token). */
function ratio(p: Distribution, q: Distribution, token: number): number {
  const probability = q.of(token);
  if (probability > 0) return p.of(token) / probability;
  throw new ModelError(
    `the draft proposed token ${token}, to which its distribution q gives probability 0; a drafter must report the distribution that it drew from`,
  );
}

/**
 * Leviathan et al. (2022), Algorithm 1: accept x_i with probability min(1, p_i(x_i) / q_i(x_i)).
 *
 * The first rejected token is replaced by one from the residual. If none is rejected, the next token
 * is a bonus from p_{γ+1}.
 */
export const tokenRule: Rule = (proposal, p, randomness) => {
  for (const [i, token] of proposal.tokens.entries()) {
    const q = proposal.q[i]!;
    if (!randomness.bernoulli(ratio(p.at(i), q, token))) {
      return { accepted: i, evaluated: i + 1, next: residual(p.at(i), q) };
    }
  }
  const drafted = proposal.tokens.length;
  return { accepted: drafted, evaluated: drafted, next: p.at(drafted) };
};

/**
 * Sun et al. (2024, arXiv 2403.10444), block verification: never fewer tokens in expectation.
 *
 * w_0 = 1 and w_i = min(w_{i−1} · p_i(x_i) / q_i(x_i), 1). The accepted length is the largest i whose
 * own draw η_i is below h_i, where h_γ = w_γ and, for i < γ, h_i = Z_i / (Z_i + 1 − w_i) with
 * Z_i = Σ_x max(0, w_i · p_{i+1}(x) − q_{i+1}(x)). The draws are independent, so they are made from
 * the last to the first and stop at a success. 1 − w_i is computed first, so that h_i is exactly 1, and
 * nothing is drawn, where w_i is.
 */
export const blockRule: Rule = (proposal, p, randomness) => {
  const drafted = proposal.tokens.length;
  const w = [1];
  for (const [i, token] of proposal.tokens.entries()) {
    w.push(Math.min(w[i]! * ratio(p.at(i), proposal.q[i]!, token), 1));
  }
  if (randomness.bernoulli(w[drafted]!)) return { accepted: drafted, evaluated: drafted, next: p.at(drafted) };
  for (let i = drafted - 1; i > 0; i--) {
    const z = sum(excess(p.at(i), proposal.q[i]!, w[i]!));
    if (z > 0 && randomness.bernoulli(z / (z + (1 - w[i]!)))) {
      return { accepted: i, evaluated: i + 1, next: residual(p.at(i), proposal.q[i]!, w[i]!) };
    }
  }
  return { accepted: 0, evaluated: 1, next: residual(p.at(0), proposal.q[0]!) };
};

/**
 * Daliri, Musco and Suresh (2024, arXiv 2408.07978): accept what the target chooses, too.
 *
 * The target's own choice at each position is made by the noise of that position (`Coupled`), so the text
 * is plain decoding's, token by token, whatever was drafted. q is not looked at. The first choice that
 * differs is the correction. With a draft that used the same noise, a token is accepted with probability
 * at least (1 − TV(p, q)) / (1 + TV(p, q)).
 */
export const coupledRule: Rule = (proposal, p, randomness) => {
  for (const [i, token] of proposal.tokens.entries()) {
    const chosen = randomness.categorical(p.at(i), i);
    if (chosen !== token) return { accepted: i, evaluated: i + 1, next: oneHot(chosen) };
  }
  const drafted = proposal.tokens.length;
  return { accepted: drafted, evaluated: drafted, next: p.at(drafted) };
};

export type RuleName = "coupled" | "token" | "block";
export const RULES: Readonly<Record<RuleName, Rule>> = { coupled: coupledRule, token: tokenRule, block: blockRule };
