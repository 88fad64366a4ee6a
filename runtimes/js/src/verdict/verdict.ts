// Whether a target is row-invariant here: measured once, then read from the host's store.

import type { Model } from "../core/model.js";
import type { Host } from "../host.js";
import { MAX_ROWS, type RowInvariance } from "../pair/manifest.js";
import { machineDigest, machineSentence } from "./machine.js";
import { type Findings, measureRowInvariance } from "./measure.js";

/** A model that is opened to be measured. */
export interface MeasuredModel extends Model {
  freeCache(): void;
}

/**
 * The result for a graph on this host; measured now if there is none yet, which takes seconds.
 *
 * @param graph digest of the decoder's file.
 * @param openModel opens the target to be measured; called only if it has to be.
 */
export async function rowInvarianceHere(host: Host, graph: string, openModel: () => MeasuredModel): Promise<RowInvariance> {
  const machine = await machineDigest(host);
  const known = await host.verdicts.read(graph, machine);
  if (known !== null) return known;
  const found = await findings(openModel());
  const verdict = {
    is_row_invariant: found.isRowInvariant,
    min_rows: found.minRows,
    max_rows: MAX_ROWS,
    one_row_difference: found.oneRowDifference,
    measured_on: machineSentence(host),
    machine,
    candidates: false,
    kernels: "",
    logits: "",
  };
  await host.verdicts.write(graph, verdict);
  return verdict;
}

async function findings(model: MeasuredModel): Promise<Findings> {
  try {
    return await measureRowInvariance(model);
  } finally {
    model.freeCache();
  }
}

/** Whether a value read from a store is a measurement. */
export function isRowInvariance(value: unknown): value is RowInvariance {
  const { is_row_invariant, min_rows, max_rows, machine } = (value ?? {}) as Partial<RowInvariance>;
  return (
    typeof is_row_invariant === "boolean" &&
    (min_rows === 1 || min_rows === 2) &&
    Number.isInteger(max_rows) &&
    max_rows! >= min_rows &&
    max_rows! <= MAX_ROWS &&
    typeof machine === "string"
  );
}
