// A caller's own drafter, whose every answer is checked before anything depends on it.

import { Distribution } from "../core/distribution.js";
import type { Drafter, Proposal } from "../core/draft.js";
import type { Candidate } from "../core/model.js";
import { Coupled, type Randomness } from "../core/randomness.js";
import { DrafterError, EdgespecError, shortened, UsageError } from "../errors.js";

const TOLERANCE = 1e-3; // of the sum of a distribution: float32 sums of a whole vocabulary are closer

/**
 * A caller's drafter, kept to the protocol: it can end a text by an error, never change it.
 *
 * It gets copies of the text, and randomness that it can draw from and not move.
 */
export class OwnDrafter implements Drafter {
  readonly cost?: number;
  readonly #drafter: Drafter;
  readonly #vocabulary: number;
  readonly #name: string;

  /**
   * @param drafter the caller's.
   * @param vocabulary number of the target's tokens.
   * @throws UsageError: it lacks a method.
   */
  constructor(drafter: Drafter, vocabulary: number) {
    this.#drafter = drafter;
    this.#vocabulary = vocabulary;
    this.#name = drafter.constructor?.name || "Object";
    for (const name of ["begin", "propose"] as const) {
      if (typeof drafter[name] !== "function")
        throw new UsageError(`the drafter ${this.#name} has no method ${name}; give it one`);
    }
    this.#checkedSeconds();
    if (drafter.cost !== undefined) this.cost = drafter.cost; // `ownCost` checks it
  }

  get seconds(): number {
    return this.#checkedSeconds();
  }

  begin(prompt: readonly number[]): void {
    try {
      this.#drafter.begin([...prompt]);
    } catch (error) {
      throw this.#named(error);
    }
  }

  async propose(text: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    try {
      return this.#checked(await this.#drafter.propose([...text], gamma, draws(randomness)), gamma);
    } catch (error) {
      throw this.#named(error);
    }
  }

  #checked(proposal: Proposal | null | undefined, gamma: number): Proposal {
    const { tokens, q, candidates = [] } = proposal ?? {};
    if (!isList(tokens) || !isList(q) || !isList(candidates))
      throw this.#wrong(`proposes ${shortened(proposal)}`, "return lists of tokens, q and candidates");
    if (tokens.length !== q.length)
      throw this.#wrong(`proposes ${tokens.length} tokens with ${q.length} distributions`, "give one q for each token");
    const count = Math.min(gamma, tokens.length);
    return {
      tokens: Array.from({ length: count }, (_, index) => this.#token(tokens[index])),
      q: Array.from({ length: count }, (_, index) => this.#distribution(q[index])),
      candidates: Array.from(candidates, (candidate) => this.#candidate(candidate)),
    };
  }

  #token(token: unknown): number {
    if (Number.isInteger(token) && (token as number) >= 0 && (token as number) < this.#vocabulary)
      return token as number;
    throw this.#wrong(`proposes the token ${shortened(token)}`, `give ids from 0 to ${this.#vocabulary - 1}`);
  }

  #candidate(candidate: Candidate | null | undefined): Candidate {
    const { parent, token } = candidate ?? {};
    if (!Number.isInteger(parent))
      throw this.#wrong(`has the candidate ${shortened(candidate)}`, "give the index that it follows, and a token");
    return { parent: parent as number, token: this.#token(token) };
  }

  #distribution(q: unknown): Distribution {
    if (!(q instanceof Distribution)) throw this.#wrong(`gives ${shortened(q)} as a q`, "give a Distribution");
    const { tokens, probabilities } = q;
    if (!isList(probabilities) || !(tokens === null || isList(tokens)))
      throw this.#wrong("gives a q without lists", "give tokens and their probabilities");
    const size = tokens === null ? probabilities.length : tokens.length;
    if (size === 0 || size !== probabilities.length)
      throw this.#wrong(
        `gives a q of ${size} tokens and ${probabilities.length} probabilities`,
        "give as many of both",
      );
    let sum = 0;
    let least = Infinity;
    for (let index = 0, before = -1; index < size; index++) {
      const token: unknown = q.token(index);
      if (!(Number.isInteger(token) && (token as number) > before && (token as number) < this.#vocabulary))
        throw this.#wrong("gives a q of wrong tokens", `give increasing ids from 0 to ${this.#vocabulary - 1}`);
      before = token as number;
      const probability: unknown = probabilities[index];
      sum += typeof probability === "number" ? probability : NaN;
      least = Math.min(least, probability as number);
    }
    if (!(Math.abs(sum - 1) <= TOLERANCE && least >= 0))
      throw this.#wrong(
        `gives a q whose sum is ${sum} and whose least probability is ${least}`,
        "give probabilities from 0 that sum to 1",
      );
    return q;
  }

  #checkedSeconds(): number {
    let seconds: unknown;
    try {
      seconds = this.#drafter.seconds;
    } catch (error) {
      throw this.#named(error);
    }
    if (typeof seconds === "number" && seconds >= 0 && seconds < Infinity) return seconds;
    throw this.#wrong(`has the seconds ${shortened(seconds)}`, "give a number from 0");
  }

  #wrong(what: string, wayOut: string): DrafterError {
    return new DrafterError(this.#name, what, wayOut);
  }

  /** What a caller's code throws, in one sentence. */
  #named(error: unknown): EdgespecError {
    if (error instanceof EdgespecError) return error;
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return new DrafterError(this.#name, `failed (${reason.replace(/\s+/g, " ").slice(0, 200)})`, "mend it", error);
  }
}

/** Arrays and typed arrays; of texts, none. */
function isList(value: unknown): value is ArrayLike<unknown> & Iterable<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && "length" in value);
}

/** A round's randomness, which a drafter draws from. Its position stays the loop's. */
class Draws implements Randomness {
  constructor(protected readonly randomness: Randomness) {}

  at(emitted: number): Randomness {
    throw new UsageError(
      `a drafter asked for the randomness after ${shortened(emitted)} tokens; draw from what propose is given`,
    );
  }

  bernoulli(probability: number): boolean {
    return this.randomness.bernoulli(probability);
  }

  categorical(distribution: Distribution, ahead: number): number {
    return this.randomness.categorical(distribution, ahead);
  }
}

function draws(randomness: Randomness): Randomness {
  const drawn = new Draws(randomness);
  if (!(randomness instanceof Coupled)) return drawn;
  return Object.assign(drawn, { ranked: randomness.ranked.bind(randomness) });
}
