// The files of a folder that was dropped into the page: path to file.

export async function filesOfDrop({ items }) {
  const entries = [...items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const files = new Map();
  await Promise.all(entries.map((entry) => collect(entry, files)));
  return files;
}

async function collect(entry, files) {
  if (entry.isFile) {
    files.set(entry.fullPath.slice(1), await new Promise((found, failed) => entry.file(found, failed)));
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((found, failed) => reader.readEntries(found, failed));
    if (some.length === 0) return; // it gives a hundred at a time
    await Promise.all(some.map((inner) => collect(inner, files)));
  }
}
