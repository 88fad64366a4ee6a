// The drafters that users name.

import { Adaptive, Confident, type Controller, controllerOf } from "../core/controller.js";
import type { CostSource } from "../core/cost-model.js";
import type { Processor } from "../core/distribution.js";
import type { Drafter } from "../core/draft.js";
import { candidateModelOf, type Model, type Range } from "../core/model.js";
import { shortened, UsageError } from "../errors.js";
import { AlternatingDrafter, type Rival } from "./alternating.js";
import { ModelDrafter } from "./model-drafter.js";
import { NgramLookup } from "./ngram-lookup.js";
import type { Vocabulary } from "./vocabulary-map.js";

export const DRAFTER_NAMES = ["ngram", "model", "both"] as const;
export type DrafterName = (typeof DRAFTER_NAMES)[number];

// Cost c of a caller's own drafter that does not say what a token costs, in steps of the target: more
// than most draft models cost, so that γ "auto" drafts with it only where it is often right.
const OWN_DRAFT_COST = 0.3;

/** What a drafter may be built from, for one text. */
export interface DrafterSetup {
  /** The model that verifies. */
  readonly target: Model;
  /** The draft model; null if the pair has none. */
  readonly draft: Model | null;
  readonly vocabulary: Vocabulary;
  readonly process: Processor;
  readonly gamma: number | "auto";
  /** Of rounds with n-gram lookup, and with the draft model. */
  readonly costs: { readonly lookup: CostSource; readonly model: CostSource };
  /** Token ids that end the text. */
  readonly lastTokens: readonly number[];
  /** Of a prompt that is a conversation, see `Model.prefill`. */
  readonly assistantSpans: readonly Range[] | null;
}

/** A drafter and the controller of its γ. */
export interface Drafting {
  readonly draft: Drafter;
  readonly gamma: Controller;
}

/** @throws UsageError: γ is out of range, or the pair has no draft model and the drafter needs one. */
export function namedDrafter(name: DrafterName, setup: DrafterSetup): Drafting {
  if (name === "ngram") return lookup(setup);
  if (name === "model") return model(setup);
  const both = new AlternatingDrafter([lookup(setup), model(setup)]);
  return { draft: both, gamma: both };
}

/** A caller's own drafter. @param cost of `ownCost`. */
export function ownDrafter(draft: Drafter, cost: number, { gamma, costs }: DrafterSetup): Drafting {
  return { draft, gamma: controllerOf(gamma, costs.lookup.now().withDraft(cost), Adaptive) };
}

/** What a drafted token of a caller's own drafter costs, in steps of the target. @throws UsageError: no number from 0. */
export function ownCost({ cost = OWN_DRAFT_COST }: Drafter): number {
  if (cost >= 0 && cost < Infinity) return cost;
  throw new UsageError(
    `the drafter's cost is ${shortened(cost)}; give the time of a drafted token in steps of the target, a number from 0`,
  );
}

function lookup({ gamma, costs }: DrafterSetup): Rival {
  return { draft: new NgramLookup(), gamma: controllerOf(gamma, costs.lookup, Adaptive) };
}

function model(setup: DrafterSetup): Rival {
  const { target, draft, process, vocabulary, lastTokens, assistantSpans } = setup;
  if (draft === null) throw new UsageError('the pair was exported without a draft model; use draft "ngram"');
  const gamma = controllerOf(setup.gamma, setup.costs.model, Confident);
  const confident = gamma instanceof Confident ? gamma : null;
  const branching = candidateModelOf(target) === null ? null : confident;
  const drafter = new ModelDrafter({
    model: draft,
    process,
    vocabulary,
    lastTokens,
    assistantSpans,
    shouldContinue: confident?.shouldContinue.bind(confident),
    worthCandidate: branching?.worthCandidate.bind(branching),
  });
  return { draft: drafter, gamma };
}
