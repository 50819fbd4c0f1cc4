// Counters and credit over an episode, drawn once; a cursor follows the decision that is shown.

const CHARTS = [
  ["health", "health", "--health"],
  ["ammo", "ammo", "--ammo"],
  ["kills", "kills", "--kills"],
  ["credit_value", "credit V", "--credit"],
];
const TALL = 40;

function drawCharts(data, seek) {
  const known = CHARTS.filter(([column]) => data.columns[column]?.some((value) => value !== null));
  fill("charts", ...known.map(([column, name, colour]) => chart(data, column, name, colour, seek)));
}

function chart(data, column, name, colour, seek) {
  const values = data.columns[column];
  const [low, high] = extent(values, column);
  const svg = makeSvg("svg", { viewBox: `0 0 ${Math.max(data.steps - 1, 1)} ${TALL}`, preserveAspectRatio: "none", role: "img", "aria-label": told(values, name) });
  svg.append(...marks(data), path(values, low, high, colour), makeSvg("line", { class: "cursor", y1: 0, y2: TALL, x1: 0, x2: 0 }));
  svg.addEventListener("click", (event) => seek(tickAt(event, svg, data.steps)));
  return make("div", { class: "chart", "data-column": column }, make("span", {}, name), svg, make("span", { class: "value" }));
}

function extent(values, column) {
  if (column === "credit_value") return [-1, 1];
  const known = values.filter((value) => value !== null);
  return [Math.min(0, ...known), Math.max(1, ...known)];
}

function told(values, name) {
  const known = values.filter((value) => value !== null);
  return `${name} over ${counted(values.length, "decision")}: begins at ${number(known[0])}, ends at ${number(known.at(-1))}, at least ${number(Math.min(...known))}, at most ${number(Math.max(...known))}`;
}

function path(values, low, high, colour) {
  let pen = "M";
  const points = [];
  values.forEach((value, tick) => {
    if (value === null) return void (pen = "M");
    points.push(`${pen}${tick},${(TALL - 2 - ((value - low) / (high - low)) * (TALL - 4)).toFixed(2)}`);
    pen = "L";
  });
  const line = makeSvg("path", { d: points.join("") });
  line.style.stroke = `var(${colour})`;
  return line;
}

// Where something happened, and, along the bottom, where the policy was in trouble.
function marks(data) {
  const found = [];
  for (let tick = 0; tick < data.steps; tick += 1) {
    if (data.columns.events[tick]?.length) found.push(makeSvg("line", { class: "event", x1: tick, x2: tick, y1: 0, y2: TALL }));
    if (isTrouble(data, tick)) found.push(makeSvg("line", { class: "trouble", x1: tick, x2: tick, y1: TALL - 5, y2: TALL }));
  }
  return found;
}

function tickAt(event, svg, steps) {
  const box = svg.getBoundingClientRect();
  return Math.min(steps - 1, Math.max(0, Math.round(((event.clientX - box.left) / box.width) * (steps - 1))));
}

function moveCursor(data, tick) {
  for (const row of byId("charts").children) {
    const cursor = row.querySelector(".cursor");
    cursor.setAttribute("x1", tick);
    cursor.setAttribute("x2", tick);
    row.lastChild.textContent = number(data.columns[row.dataset.column][tick], 3);
  }
}
