// The cost of a round and the tokens it is expected to bring, in units of a plain decoding step.
//
// Leviathan et al. (2022), Theorem 3.8, assume that verification is free: speed-up = E[tokens] /
// (γ c + 1). On a device it is not, so v(γ + 1) replaces 1, and the loop's own time o is added.

/** Where a controller takes the costs from: `Costs`, or what the clock says by now. */
export interface CostSource {
  /** A draft that cannot pay by the costs of now may do so later. */
  readonly mayChange: boolean;
  now(): Costs;
}

/** Times of a target and a draft, in units of a plain step (the loop's share included). */
export class Costs implements CostSource {
  readonly mayChange = false;
  readonly #rounds: readonly number[];
  readonly #marginal: readonly number[];

  /**
   * @param verify [longest + 1]: v(1), v(2), …, where v(m) = t_target(m) / t_target(1); v(1) is 1.
   * @param draft c = t_draft(1) / t_target(1); 0 for n-gram lookup.
   * @param overhead o, the loop's extra time for a drafted round compared with a plain step.
   */
  constructor(
    readonly verify: readonly number[],
    readonly draft: number,
    readonly overhead = 0,
  ) {
    this.#rounds = verify.map((_, gamma) => this.round(gamma));
    this.#marginal = marginalCosts(verify);
  }

  /** Themselves. */
  now(): Costs {
    return this;
  }

  /** The largest γ whose verification has a known cost. */
  get longest(): number {
    return this.verify.length - 1;
  }

  /** The same costs with v cut or extrapolated (by its mean slope) to v(longest + 1). */
  upTo(longest: number): Costs {
    const known = this.verify.slice(0, longest + 1);
    const last = known.at(-1)!;
    const slope = (last - known[0]!) / Math.max(1, known.length - 1);
    const verify = Array.from({ length: longest + 1 }, (_, i) => known[i] ?? last + slope * (i + 1 - known.length));
    return new Costs(verify, this.draft, this.overhead);
  }

  /** The same rounds with a drafter of another cost. */
  withDraft(draft: number): Costs {
    return new Costs(this.verify, draft, this.overhead);
  }

  /** Cost of a round that drafts γ tokens. */
  round(gamma: number): number {
    return this.verify[gamma]! + (gamma ? gamma * this.draft + this.overhead : 0);
  }

  /** The cost of one more position in a verification of `rows` positions. */
  marginalCost(rows: number): number {
    return this.#marginal[Math.min(rows, this.#marginal.length) - 1]!;
  }

  /**
   * The γ with the largest speed-up S = E[tokens] / (γ c + v(γ + 1) + o) over plain decoding (0 where
   * drafting does not pay), and that speed-up. One pass: E[tokens] grows by α^γ (equation 1).
   */
  best(acceptance: number): readonly [gamma: number, speedup: number] {
    let [best, largest, tokens, reached] = [0, 0, 0, 1];
    for (const [gamma, cost] of this.#rounds.entries()) {
      tokens += reached;
      reached *= acceptance;
      if (tokens > largest * cost) [best, largest] = [gamma, tokens / cost];
    }
    return [best, largest];
  }
}

/** Slopes of v at 1, 2, …, averaged over neighbours since measured curves are not smooth; from 0. */
function marginalCosts(verify: readonly number[]): number[] {
  const longest = verify.length - 1;
  return Array.from({ length: Math.max(1, longest) }, (_, index) => {
    const [first, last] = [Math.max(0, index - 1), Math.min(longest, index + 2)];
    return Math.max(0, (verify[last]! - verify[first]!) / Math.max(1, last - first));
  });
}

// Guesses for devices that were not measured, as in edgespec/costs/cost_model.py, without kernels.
// Fixed times, in bytes of weights that are read meanwhile:
const CALL_BYTES = 6_000_000; // any call of a model, in addition to reading its weights
const LOOP_BYTES = 8_000_000; // a drafted round, in addition to a plain step
const SMALLEST_TARGET_BYTES = 27_000_000; // bytes of the smallest target measured; smaller ones are treated as this
const CACHED_DRAFT_BYTES = 16_000_000; // bytes of a draft that stay in the processor's cache until its next call

/** What is known of a target without measuring its calls. */
export interface TargetSize {
  /** Of the weights. */
  readonly bytes: number;
  /** What one more position costs, in plain steps: the manifest has it for each number format. */
  readonly rowCost: number;
  /** The fewest positions that the target is called with: what a plain step pays for. */
  readonly minRows: number;
  /** The largest γ. */
  readonly longest: number;
}

/**
 * Costs for a device that was not measured.
 *
 * Decoding is bound by reading weights, so a draft's call costs its share of the bytes plus the fixed
 * cost of a call. A small draft is read from memory once per round: verification sweeps the caches,
 * the draft's own calls do not.
 *
 * @param draftBytes size of the draft's weights; 0 for a draft that is no model.
 */
export function estimatedCosts(target: TargetSize, draftBytes: number): Costs {
  const step = Math.max(target.bytes, SMALLEST_TARGET_BYTES) + CALL_BYTES;
  const verify = Array.from(
    { length: target.longest + 1 },
    (_, gamma) => 1 + target.rowCost * Math.max(0, gamma + 1 - target.minRows),
  );
  const [drafting, call, loop] = [draftBytes / step, CALL_BYTES / step, LOOP_BYTES / step];
  if (!draftBytes) return new Costs(verify, 0, loop);
  if (draftBytes > CACHED_DRAFT_BYTES) return new Costs(verify, drafting + call, loop);
  return new Costs(verify, call, loop + drafting);
}
