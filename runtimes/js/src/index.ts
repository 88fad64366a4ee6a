// The package's public names. `load` is the adapter's: of `@edgespec/edgespec/node` in Node.js and Electron.

export { load } from "#adapter";
export * from "./errors.js";
export type { Candidate, CandidateModel, Model, Range, Rows } from "./core/model.js";
export type { Drafter, Proposal } from "./core/draft.js";
export { Distribution, oneHot, type Processor } from "./core/distribution.js";
export { Costs } from "./core/cost-model.js";
export { Seeded, type Randomness } from "./core/randomness.js";
export type { Folder, Host, Progress, Session, TensorData, TensorType, InvarianceStore, Watch } from "./host.js";
export type { FileRecord, RowInvariance } from "./pair/records.js";
export type { GenerationOptions, LoadOptions, Message, PromptInput } from "./pair/options.js";
export type { Chunk, FinishReason, Generation, Settings, Stats } from "./pair/generation.js";
export { openPair } from "./pair/loading.js";
export { Pair } from "./pair/pair.js";
export { Chat, type ChatOptions, type ChatStream } from "./pair/chat.js";
export type { Stream } from "./pair/stream.js";
export { NgramLookup } from "./drafters/ngram-lookup.js";
export type { DrafterName } from "./drafters/registry.js";
