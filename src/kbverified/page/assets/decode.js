// What page/packing.py packed: base64, gzip, JSON. The elements that hold it are never executed, only read.

/** The value packed in the element with this id. */
export async function unpack(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page holds no data ${id}`);
  const letters = atob(node.textContent.trim());
  const data = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

const KEPT = 8;
const blocks = new Map();

/** The details of one problem and of all its candidates, decoded when first asked for; a few are kept. */
export function block(problem) {
  const known = blocks.get(problem);
  if (known) return known;
  const coming = unpack(`block-${problem}`);
  blocks.set(problem, coming);
  if (blocks.size > KEPT) blocks.delete(blocks.keys().next().value);
  return coming;
}
