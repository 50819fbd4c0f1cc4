// Which episodes are listed.

const SHOWN = {
  all: ["all", () => true],
  disagreements: ["with disagreements", (entry) => entry.disagreements > 0],
  out: ["out of schema", (entry) => entry.outOfSchema > 0],
  failed: ["failed", (entry) => entry.status === "failed"],
  ungraded: ["ungraded", (entry) => entry.ungraded],
  pictures: ["with pictures here", (entry) => entry.pictures !== null],
};

const FIELDS = {
  run: (entry) => runOf(entry),
  scenario: (entry) => groupOf(entry).scenario,
  rubric: (entry) => groupOf(entry).rubric,
  policy: (entry) => groupOf(entry).policy,
  end: (entry) => entry.end ?? entry.status,
  label: (entry) => entry.verdicts.find((verdict) => verdict.label)?.label ?? "no label",
};

function buildFilters(onChange) {
  const fields = Object.entries(FIELDS).map(([name, read]) => choice(name, valuesOf(read)));
  const shown = make("label", {}, "Show", select("shown", Object.entries(SHOWN).map(([value, [text]]) => [value, text])));
  const search = make("label", {}, "Search", make("input", { type: "search", id: "search", placeholder: "seed, words of a reason" }));
  fill("filters", shown, ...fields.filter(Boolean), search);
  byId("filters").addEventListener("input", onChange);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
}

const valuesOf = (read) => [...new Set(index.episodes.map(read))].sort();

function choice(name, values) {
  if (values.length < 2) return null;
  return make("label", {}, name[0].toUpperCase() + name.slice(1), select(`filter-${name}`, [["", "all"], ...values.map((value) => [value, value])]));
}

function select(id, options) {
  return make("select", { id }, ...options.map(([value, text]) => make("option", { value }, text)));
}

function chosenEpisodes() {
  const [, isShown] = SHOWN[byId("shown").value];
  const wanted = Object.entries(FIELDS).map(([name, read]) => [read, byId(`filter-${name}`)?.value ?? ""]);
  const words = byId("search").value.trim().toLowerCase();
  return index.episodes.filter(
    (entry) => isShown(entry) && wanted.every(([read, value]) => !value || read(entry) === value) && (!words || said(entry).includes(words)),
  );
}

function said(entry) {
  const verdicts = entry.verdicts.flatMap((verdict) => [verdict.reason, verdict.label, verdict.cause]);
  return [entry.id, entry.stage, entry.cause, ...verdicts].filter(Boolean).join("\n").toLowerCase();
}
