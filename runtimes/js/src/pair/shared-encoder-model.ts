// Runs a draft that reads its target's encoder.

import type { Tensor } from "onnxruntime-common";
import { ModelError } from "../errors.js";
import type { Host } from "../host.js";
import { type Calls, GraphModel, type Sessions } from "./graph-model.js";
import type { Exported, Variant } from "./manifest.js";

/** A decoder whose cross-attention reads what the target's encoder said of the same source. */
export class SharedEncoderModel extends GraphModel {
  readonly #target: GraphModel;

  /** @param target whose encoder it reads; it must have started the same text before. */
  constructor(host: Host, exported: Exported, variant: Variant, sessions: Sessions, calls: Calls, target: GraphModel) {
    super(host, exported, variant, sessions, calls);
    this.#target = target;
  }

  protected override encoderFeeds(prompt: readonly number[]): Readonly<Record<string, Tensor>> {
    const features = this.#target.encoderStates;
    const length = features?.dims[0] ?? 0;
    if (features === null || length !== prompt.length) {
      throw new ModelError(
        `the draft was given ${prompt.length} source tokens, and its target's encoder has read ${length}; start the target's text first`,
      );
    }
    return { features };
  }
}
