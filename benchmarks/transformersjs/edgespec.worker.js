// edgespec/web behind the messages of compare.mjs: load, and generate with or without a draft.

import { load } from "@edgespec/edgespec/web";

let pair = null;

const actions = {
  async load() {
    pair = await load("/pair/", {
      threads: 1,
      inPlace: true,
      wasmPaths: new URL("/ort-edgespec/", self.location.href).href,
    });
    return {
      promptFormat: pair.manifest.chat,
      isRowInvariant: pair.rowInvariance.is_row_invariant,
      minRows: pair.rowInvariance.min_rows,
    };
  },
  async generate({ prompt, maxNewTokens, draft }) {
    const times = [];
    for await (const { token } of pair.stream(prompt, { maxNewTokens, temperature: 0, draft, ignoreEos: true })) {
      if (token !== null) times.push([token, performance.now()]);
    }
    return { times };
  },
};

self.onmessage = async ({ data: { action, ...given } }) => {
  try {
    self.postMessage({ ...(await actions[action](given)) });
  } catch (error) {
    self.postMessage({ failed: error.stack });
  }
};
