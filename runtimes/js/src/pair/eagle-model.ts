// Runs an EAGLE head, a draft that takes its target's hidden states (arXiv:2503.01840).

import type { Tensor } from "onnxruntime-common";
import { DamagedError, ModelError } from "../errors.js";
import type { Host } from "../host.js";
import { type Calls, GraphModel, type Sessions } from "./graph-model.js";
import type { Exported, Variant } from "./manifest.js";

/**
 * A position takes the target's features of the position before it, fused.
 *
 * Until the target has computed them, a position takes the head's own hidden state. Such positions are
 * scored one at a time and are not part of `validLength`: they should be scored again after the target
 * has computed its features.
 */
export class EagleModel extends GraphModel {
  readonly #target: GraphModel;
  readonly #width: number; // of the target's features
  #validLength = 0;
  #hidden = new Float32Array(0);
  #hiddenPosition = -1; // the position that returned it

  /** @param target whose features it takes; both hold the same text. */
  constructor(host: Host, exported: Exported, variant: Variant, sessions: Sessions, calls: Calls, target: GraphModel) {
    super(host, exported, variant, sessions, calls);
    const width = target.features?.width ?? 0;
    if (width !== exported.features || width === 0) {
      throw new DamagedError(
        "the manifest",
        `the draft takes ${exported.features ?? 0} features of each position and the target returns ${width}`,
      );
    }
    this.#target = target;
    this.#width = width;
  }

  override get validLength(): number {
    return Math.min(this.#validLength, this.length);
  }

  /** All tokens that the draft lacks have the same id there, but the features after them differ. */
  protected override positionKey(token: number, position: number): string {
    return `${token}/${this.#target.cachedKey(position)}`;
  }

  protected override async states(count: number): Promise<Readonly<Record<string, Tensor>>> {
    const [first, end] = [this.length, this.length + count];
    const known = this.validLength;
    if (end <= this.#target.length + 1) {
      const states = await this.#fused(first, end); // the target has been at every position before these
      this.#validLength = known === first ? end : known;
      return { fused_states: states };
    }
    if (count !== 1 || this.#hiddenPosition !== first - 1) {
      throw new ModelError(
        `asked to score positions ${first} to ${end - 1} where the target has scored ${this.#target.length}; score later ones one at a time`,
      );
    }
    this.#validLength = known;
    return { fused_states: this.host.tensor("float32", this.#hidden, [1, this.#hidden.length]) };
  }

  protected override stateNames(): readonly string[] {
    return ["hidden"];
  }

  protected override async storeStates(outputs: Readonly<Record<string, Tensor>>, count: number): Promise<void> {
    const width = outputs.hidden!.dims[1]!;
    const values = (await outputs.hidden!.getData(true)) as Float32Array;
    this.#hidden = values.slice((count - 1) * width, count * width);
    this.#hiddenPosition = this.length + count - 1;
    outputs.hidden!.dispose();
  }

  /** The fused features of the position before each: float32 [end − first, width], zeros before 0. */
  async #fused(first: number, end: number): Promise<Tensor> {
    const before = new Float32Array((end - first) * this.#width);
    const skipped = Math.max(0, 1 - first); // no position is before the first
    before.set(this.#target.features!.read(first - 1 + skipped, end - 1), skipped * this.#width);
    const features = this.host.tensor("float32", before, [end - first, this.#width]);
    const { fused_states: states } = await this.timed(() =>
      this.sessions.feature_fusion!.run({ features }, { fused_states: null }),
    );
    const values = (await states!.getData(true)) as Float32Array;
    values.fill(0, 0, skipped * states!.dims[1]!);
    const fused = this.host.tensor("float32", values, states!.dims);
    for (const tensor of [features, states!]) tensor.dispose();
    return fused;
  }
}
