// Keeps the page itself, so that it opens without a network. Models are kept by edgespec.

/* global FILES, VERSION -- build.mjs fills them in */
const CACHE = `edgespec-page-${VERSION}`;

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(FILES)));
  self.skipWaiting();
});

self.addEventListener("activate", (event) => event.waitUntil(replaceOlder()));

async function replaceOlder() {
  const names = await caches.keys();
  const older = names.filter((name) => name.startsWith("edgespec-page-") && name !== CACHE);
  await Promise.all(older.map((name) => caches.delete(name)));
  await self.clients.claim();
}

self.addEventListener("fetch", (event) => {
  if (event.request.method === "GET") event.respondWith(keptOrFetched(event.request));
});

async function keptOrFetched(request) {
  const kept = await (await caches.open(CACHE)).match(request, { ignoreSearch: request.mode === "navigate" });
  return kept ?? fetch(request);
}
