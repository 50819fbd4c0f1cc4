// The page's data: an index of all episodes, and each one's decisions and pictures, opened when they are asked for.

const index = JSON.parse(byId("index").textContent);

const groupOf = (entry) => index.groups[entry.group];
const runOf = (entry) => index.runs[groupOf(entry).run];

function bytesOf(id) {
  const text = atob(byId(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

// → {columns, disagrees, summaries, steps, pictures}; pictures[tick] is WebP, empty where there is none.
async function openEpisode(entry) {
  const data = JSON.parse(await inflate(bytesOf(entry.text)));
  data.pictures = entry.pictures === null ? [] : picturesOf(bytesOf(entry.pictures));
  data.steps = data.columns.tick.length;
  return data;
}

// How many, how long each is, and then they themselves.
function picturesOf(bytes) {
  const head = new DataView(bytes.buffer);
  const n = head.getUint32(0, true);
  let at = 4 * (n + 1);
  return Array.from({ length: n }, (_, place) => bytes.subarray(at, (at += head.getUint32(4 * (place + 1), true))));
}

const isTrouble = (data, tick) => Boolean(data.disagrees[tick]) || Boolean(data.columns.out_of_schema[tick]);
const hasTrouble = (entry) => entry.disagreements > 0 || entry.outOfSchema > 0;

// The first troubled decision after `tick` (before it, where `step` is -1); null where there is none.
function findTrouble(data, tick, step = 1) {
  for (let at = tick + step; at >= 0 && at < data.steps; at += step) if (isTrouble(data, at)) return at;
  return null;
}
