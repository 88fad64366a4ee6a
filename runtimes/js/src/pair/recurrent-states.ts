// The states of recurrent layers: at a few lengths of the text, so that it can be rewound.
//
// A call takes the states of one slot, goes once more through the positions that were kept since, and writes the
// states of `kept` positions into another slot. So a rewind drops the slots beyond it, and the next call starts at
// one before it (docs/decisions/0045-states.md).

import type { Tensor } from "onnxruntime-common";
import { OutOfMemoryError } from "../errors.js";
import type { Host } from "../host.js";
import { MAX_ROWS, type StateShape } from "./manifest.js";
import { type CachedPosition, callEnd } from "./prefill.js";

const RECENT_ROWS = 64; // positions whose inputs a layer keeps
const MOST_SLOTS = 5;
// One slot is kept for each of the latest so many positions: a draft rewinds by as many one-row calls as tokens were
// rejected.
const BLOCK = MAX_ROWS - 1;

/** The states of all layers after `length` positions. */
interface Slot {
  readonly tensors: readonly Tensor[];
  length: number;
  /** A long call made it, so a prompt ends there. */
  isLong: boolean;
}

/** One call: the slot it starts from, the one it writes, and what it does with the positions. */
export interface Step {
  readonly source: Slot;
  readonly target: Slot;
  readonly length: number;
  /** Of the call, padding included. */
  readonly rows: number;
  /** Of these, positions that stay unless they are rewound. */
  readonly count: number;
  /** Positions after which the states are written; later rows are kept. */
  readonly kept: number;
}

/** The slots of one text, on a host that writes outputs where they are wanted. */
export class RecurrentStates {
  readonly #host: Host;
  readonly #shapes: readonly StateShape[];
  readonly #rows: readonly Tensor[];
  readonly #start: Slot;
  #slots: Slot[] = [];
  #unused: Slot[] = [];
  // The inputs of positions #from … #to - 1 are kept.
  #from = 0;
  #to = 0;

  constructor(host: Host, shapes: readonly StateShape[]) {
    this.#host = host;
    this.#shapes = shapes;
    this.#rows = shapes.map(({ row }) => this.#zeros([1, RECENT_ROWS, row]));
    this.#start = this.#made();
  }

  /** Forgets every position from `length` on. */
  rewind(length: number): void {
    this.#unused.push(...this.#slots.filter((slot) => slot.length > length));
    this.#slots = this.#slots.filter((slot) => slot.length <= length);
    this.#rewindRows(length);
  }

  /**
   * How a call after the cached positions is made.
   *
   * Where a rewind went further back than states are kept, positions are computed once more, by the calls that
   * computed them before: they have the same bits.
   *
   * @param maxRows of a short call.
   * @param run computes tokens after the cached positions.
   */
  async restored(
    cached: CachedPosition[],
    maxRows: number,
    rows: number,
    count: number,
    run: (tokens: number[]) => Promise<unknown>,
  ): Promise<Step> {
    for (;;) {
      const step = this.step(cached.length, rows, count);
      if (step !== null) return step;
      const start = this.reach(cached.length - 1);
      const again = cached.splice(start);
      const plan = [...cached.map(() => null), ...again.map(({ call }) => call)];
      while (cached.length < plan.length) {
        const end = callEnd(cached.length, plan, maxRows);
        const positions = again.slice(cached.length - start, end - start);
        await run(positions.map(({ key }) => Number(key)));
        cached.push(...positions);
      }
    }
  }

  /** How a call with so many rows after `length` positions is made; null if no slot has what it needs (`reach`). */
  step(length: number, rows: number, count: number): Step | null {
    const kept = length + (rows > MAX_ROWS ? count : 0); // a long call is not rewound in part
    const most = RECENT_ROWS - (length + rows - kept);
    const source = this.#known()
      .sort((a, b) => b.length - a.length)
      .find((slot) => {
        const again = length - slot.length;
        return again === 0 || (again <= most && this.#hasRows(slot.length, length));
      });
    return source === undefined ? null : { source, target: this.#free(source), length, rows, count, kept };
  }

  /** The last position up to `length` after which a call can start. */
  reach(length: number): number {
    const reaches = this.#known().map((slot) => {
      const rows = this.#hasRows(slot.length, slot.length);
      return rows ? Math.min(this.#to, slot.length + RECENT_ROWS - MAX_ROWS) : slot.length;
    });
    return Math.max(0, ...reaches.map((reach) => Math.min(reach, length)));
  }

  /** Sets what a call takes and makes. What it overwrites is lost, should it fail. */
  begin(step: Step, feeds: Record<string, Tensor>, fetches: Record<string, Tensor | null>): void {
    for (const [layer, rows] of this.#rows.entries()) {
      feeds[`past_state.${layer}`] = step.source.tensors[layer]!;
      fetches[`present_state.${layer}`] = step.target.tensors[layer]!;
      feeds[`past_rows.${layer}`] = rows;
      fetches[`present_rows.${layer}`] = rows;
    }
    this.#slots = this.#slots.filter((slot) => slot !== step.target);
    this.#unused.push(step.target);
    const stop = step.length + step.rows;
    if (step.kept === stop) return;
    this.#rewindRows(step.kept);
    this.#from = Math.max(this.#from, stop - RECENT_ROWS);
    this.#to = Math.max(this.#to, this.#from);
  }

  /** The call was made. */
  end(step: Step): void {
    const { target, length, kept } = step;
    [target.length, target.isLong] = [kept, kept > length];
    this.#unused = this.#unused.filter((slot) => slot !== target);
    this.#slots.push(target);
    if (kept === length + step.rows) return;
    if (this.#to < kept) this.#from = kept;
    this.#to = length + step.count;
  }

  dispose(): void {
    const slots = [this.#start, ...this.#slots, ...this.#unused];
    for (const tensor of [...this.#rows, ...slots.flatMap((slot) => slot.tensors)]) tensor.dispose();
  }

  #rewindRows(length: number): void {
    if (length < this.#from) this.#from = this.#to = length;
    this.#to = Math.min(this.#to, length);
  }

  #known(): Slot[] {
    return [this.#start, ...this.#slots];
  }

  /** Whether the inputs of positions start … end - 1 are kept. */
  #hasRows(start: number, end: number): boolean {
    return this.#from <= start && end <= this.#to;
  }

  /** A slot to write, other than `source`. */
  #free(source: Slot): Slot {
    const unused = this.#unused.pop();
    if (unused !== undefined) return unused;
    if (this.#slots.length < MOST_SLOTS) return this.#made();
    return this.#byWorth().find((slot) => slot !== source)!;
  }

  /** The slots, those first that are missed least: a block's second, older ends of prompts. */
  #byWorth(): Slot[] {
    const slots = [...this.#slots].sort((a, b) => a.length - b.length);
    const short = slots.filter((slot) => !slot.isLong);
    const blocks = short.map((slot) => Math.floor(slot.length / BLOCK));
    const second = short.filter((_, index) => blocks.indexOf(blocks[index]!) < index);
    const prompts = slots.filter((slot) => slot.isLong);
    return [...second, ...prompts.slice(0, -1), ...short, ...slots];
  }

  #made(): Slot {
    return { tensors: this.#shapes.map(({ state }) => this.#zeros([1, state])), length: 0, isLong: false };
  }

  #zeros(dims: readonly number[]): Tensor {
    const size = dims.reduce((product, dim) => product * dim, 1);
    try {
      return this.#host.tensor("float32", new Float32Array(size), dims);
    } catch (error) {
      throw new OutOfMemoryError("the states of recurrent layers", error);
    }
  }
}
