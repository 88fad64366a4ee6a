// Whether a target is row-invariant here: measured or confirmed once, then read from the host's store.

import type { Model } from "../core/model.js";
import type { Host } from "../host.js";
import { MAX_ROWS } from "../pair/manifest.js";
import type { RowInvariance } from "../pair/records.js";
import { machineDigest, machineSentence } from "./machine.js";

type Measuring = typeof import("./measure.js");

/** A model that is opened to be measured. */
export interface MeasuredModel extends Model {
  freeCache(): void;
}

/**
 * The result for a graph on this host: kept from an earlier visit; or shipped with the pair and confirmed
 * by a few calls; or measured now, which takes seconds.
 *
 * @param graph digest of the decoder's file.
 * @param openModel opens the target, with a cache of that many positions, to be measured; called only if it
 *   has to be.
 */
export async function rowInvarianceHere(
  host: Host,
  graph: string,
  openModel: (capacity: number) => MeasuredModel,
): Promise<RowInvariance> {
  const machine = await machineDigest(host);
  const known = await host.invariance.read(graph, machine);
  if (known !== null) return known;
  const measuring = await import("./measure.js"); // once for a graph and a machine
  const model = openModel(measuring.MEASURED_CAPACITY);
  try {
    const result =
      (await confirmed(host, graph, machine, model, measuring)) ?? (await measured(host, machine, model, measuring));
    await host.invariance.write(graph, result);
    return result;
  } finally {
    model.freeCache();
  }
}

// The record of a machine names all that decides bits, if the runtime is the one that it says. That is what
// the calls check: a build of its own, or other instructions, would give other logits.
async function confirmed(
  host: Host,
  graph: string,
  machine: string,
  model: Model,
  { logitsDigest }: Measuring,
): Promise<RowInvariance | null> {
  const shipped = await host.invariance.shipped(graph, machine);
  if (shipped === null || shipped.logits === "") return null;
  return (await logitsDigest(model)) === shipped.logits ? shipped : null;
}

async function measured(
  host: Host,
  machine: string,
  model: Model,
  { logitsDigest, measureRowInvariance }: Measuring,
): Promise<RowInvariance> {
  const found = await measureRowInvariance(model);
  return {
    is_row_invariant: found.isRowInvariant,
    min_rows: found.minRows,
    max_rows: MAX_ROWS,
    one_row_difference: found.oneRowDifference,
    measured_on: machineSentence(host),
    machine,
    candidates: false,
    texts: false,
    kernels: "",
    logits: (await logitsDigest(model)) ?? "",
  };
}

/** Whether a value read from a store is a measurement. */
export function isRowInvariance(value: unknown): value is RowInvariance {
  const { is_row_invariant, min_rows, max_rows, machine, logits } = (value ?? {}) as Partial<RowInvariance>;
  return (
    typeof is_row_invariant === "boolean" &&
    (min_rows === 1 || min_rows === 2) &&
    Number.isInteger(max_rows) &&
    max_rows! >= min_rows &&
    max_rows! <= MAX_ROWS &&
    typeof machine === "string" &&
    typeof logits === "string"
  );
}

/** A result in a pair's row_invariance.json; another graph has no result yet. */
export interface InvarianceEntry {
  readonly graph: string;
  readonly row_invariance: RowInvariance;
}

/** The results in the text of row_invariance.json; what is damaged counts as empty. */
export function invarianceEntries(text: string): InvarianceEntry[] {
  try {
    const found: unknown = JSON.parse(text);
    return Array.isArray(found) ? found.filter(isEntry) : [];
  } catch {
    return [];
  }
}

function isEntry(value: unknown): value is InvarianceEntry {
  const { graph, row_invariance } = (value ?? {}) as Partial<InvarianceEntry>;
  return typeof graph === "string" && isRowInvariance(row_invariance);
}
