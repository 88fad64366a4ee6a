// Objects of the shape of Chrome's built-in AI: the Prompt API and the Translator API, over pairs.

export { type PromptApi, promptApi, type PromptSession } from "./prompt-api.js";
export { type Languages, type TranslatorApi, translatorApi, type TranslatorSession } from "./translator-api.js";
export type { Availability, CreateOptions, OpenPair } from "./opening.js";
export { QuotaExceededError } from "./model-texts.js";
