// The list of episodes, a button each.

const PAGE = 100;

function fillList(entries, open) {
  fill("count", entries.length === index.episodes.length ? counted(entries.length, "episode") : `${number(entries.length)} of ${counted(index.episodes.length, "episode")}`);
  fill("list");
  showMore(entries, open);
  byId("more").onclick = () => showMore(entries, open);
}

function showMore(entries, open) {
  const list = byId("list");
  const there = list.children.length;
  list.append(...entries.slice(there, there + PAGE).map((entry) => make("li", {}, item(entry, open))));
  byId("more").hidden = list.children.length >= entries.length;
}

function item(entry, open) {
  const group = groupOf(entry);
  const names = index.runs.length > 1 ? [runOf(entry), group.policy] : [group.policy];
  const button = make("button", { type: "button", "data-id": keyOf(entry) }, `${group.scenario}, ${names.join(", ")}, seed ${entry.seed}`, entry.index ? ` (${entry.index})` : "", outcome(entry, group));
  button.addEventListener("click", () => open(entry));
  return button;
}

const keyOf = (entry) => `${groupOf(entry).run} ${entry.id}`;

function outcome(entry, group) {
  if (entry.status === "failed") return make("small", { class: "bad" }, `failed at stage ${entry.stage}: ${entry.cause}`);
  const parts = [`${number(entry.metric)} ${group.name}`, counted(entry.steps, "decision"), `ended by ${entry.end ?? "?"}`];
  if (entry.disagreements) parts.push(`${counted(entry.disagreements, "disagreement")}`);
  const line = make("small", {}, parts.join(" · "));
  if (entry.outOfSchema) line.append(" · ", make("span", { class: "bad" }, `${number(entry.outOfSchema)} out of schema`));
  if (entry.ungraded) line.append(" · ", make("span", { class: "bad" }, "ungraded"));
  return line;
}

function markCurrent(entry) {
  for (const button of byId("list").querySelectorAll("button")) {
    const current = button.dataset.id === keyOf(entry);
    button.setAttribute("aria-current", String(current));
    if (current) scrollWithin(byId("list"), button);
  }
}

// Scrolls the list alone, never the page.
function scrollWithin(list, button) {
  const [outer, inner] = [list.getBoundingClientRect(), button.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
}
