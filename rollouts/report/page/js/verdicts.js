// Grades and summaries of an episode.

function showVerdicts(entry) {
  fill("verdicts", ...(entry.verdicts.length ? entry.verdicts.map(verdict) : [make("p", { class: "facts" }, entry.status === "failed" ? "It failed: there is nothing to grade." : "No grader has looked at it.")]));
}

function verdict(found) {
  const who = [`${found.source} ${found.grader_id}`, found.model, found.repeat ? `repeat ${found.repeat}` : null].filter(Boolean).join(", ");
  const notes = found.notes.map((note) => make("p", { class: "facts" }, note));
  return make("div", { class: "verdict" }, make("p", { class: "facts" }, who), ...(found.status === "graded" ? score(found) : ungraded(found)), ...notes);
}

function score(found) {
  return [
    make("p", {}, make("b", {}, `R ${signed(found.r)}`), found.label ? `, ${found.label}` : "", found.reason ? `: ${found.reason}` : ""),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, row("th", ["axis", "value", "weight", "share of R"])), make("tbody", {}, ...found.axes.map(axis)))),
  ];
}

const ungraded = (found) => [make("p", {}, make("span", { class: "bad" }, "ungraded"), `: ${found.cause ?? "unknown cause"}${found.detail ? `, ${found.detail}` : ""}. It has no score, and is in no mean.`)];

const axis = (one) => row("td", [one.name, one.value === null ? "absent" : signed(one.value), number(one.weight), one.share === null ? "-" : signed(one.share)]);

const row = (tag, cells) => make("tr", {}, ...cells.map((cell, place) => make(tag, { class: place ? "number" : null, scope: tag === "th" ? "col" : null }, cell)));

const signed = (value) => (value === null ? "-" : value.toLocaleString("en", { signDisplay: "always", minimumFractionDigits: 3, maximumFractionDigits: 3 }));

function showSummaries(data, seek) {
  byId("summary-section").hidden = !data.summaries.length;
  fill("summaries", ...data.summaries.map((summary) => make("li", {}, summaryButton(summary, seek))));
}

function summaryButton(summary, seek) {
  const scored = summary.status === "degraded" ? `degraded: ${summary.cause}` : `score ${number(summary.score, 1)}`;
  const button = make("button", { type: "button", "data-first": summary.first_tick, "data-last": summary.first_tick + summary.decisions - 1 }, `${summary.first_tick}-${summary.first_tick + summary.decisions - 1} · ${summary.tool_call} · ${summary.summary} (${scored})`);
  button.addEventListener("click", () => seek(summary.first_tick));
  return button;
}

function markSummary(tick) {
  for (const button of byId("summaries").querySelectorAll("button")) {
    const current = Number(button.dataset.first) <= tick && tick <= Number(button.dataset.last);
    if (String(current) === button.getAttribute("aria-current")) continue;
    button.setAttribute("aria-current", String(current));
    if (current) scrollWithin(byId("summaries"), button);
  }
}
