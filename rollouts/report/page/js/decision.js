// One decision: what was seen, answered and sent.

function showDecision(data, tick) {
  const row = Object.fromEntries(Object.entries(data.columns).map(([name, values]) => [name, values[tick]]));
  fill("decision", ...facts(row, data.disagrees[tick]).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  fill("probabilities", ...probabilities(row));
  fill("state", row.state ?? "");
  fill("more-texts", ...text("What the policy was sent beside it", row.policy_text), ...text("Raw reply", row.raw_reply));
}

function facts(row, disagrees) {
  const found = [
    ["teacher", row.teacher_action ?? "none"],
    ["policy", own(row, disagrees)],
    ["sent", `${row.effective_action ?? "nothing: the episode was over"}${row.acted_by && row.acted_by !== "policy" ? ` (by ${row.acted_by})` : ""}`],
    ["latency", row.latency_ms === null ? "not measured" : `${number(row.latency_ms, 1)} ms`],
    ["reward", number(row.reward, 3)],
  ];
  if (row.out_of_schema) found.push(["out of schema", make("span", { class: "bad" }, row.schema_error ?? "unknown cause")]);
  if (row.error) found.push(["error", row.error]);
  if (row.parse_rule) found.push(["read by rule", row.parse_rule]);
  if (row.confidence !== null) found.push(["confidence", number(row.confidence, 3)]);
  if (row.waited_tics) found.push(["tics waited", number(row.waited_tics)]);
  if (row.credit_value !== undefined) found.push(["credit V", `${number(row.credit_value, 3)}${row.credit_alpha === null ? "" : ` (α ${number(row.credit_alpha, 3)})`}`]);
  if (row.events?.length) found.push(["then", row.events.join(", ")]);
  return found;
}

function own(row, disagrees) {
  if (!row.asked) return "not asked";
  const answer = row.model_action ?? "no answer";
  if (row.teacher_action === null) return answer;
  return make("span", { class: disagrees ? "bad" : "good" }, `${answer} (${disagrees ? "disagrees" : "agrees"})`);
}

function probabilities(row) {
  if (!row.probabilities) return [make("p", { class: "facts" }, "No probabilities were given.")];
  const lines = row.options.map((option, place) => probability(option, row.probabilities[place]));
  if (row.option_mass !== null) lines.push(make("p", { class: "facts" }, `${number(row.option_mass, 3)} of the probability fell on options`));
  return lines;
}

function probability(option, value) {
  const known = typeof value === "number" && value >= 0 && value <= 1;
  const meter = make("meter", { min: 0, max: 1, value: known ? value : 0, "aria-label": `probability of ${option}` });
  return make("div", { class: "probability" }, make("span", {}, option), meter, make("span", {}, value === null ? "not named" : number(value, 3)));
}

const text = (name, value) => (value ? [make("details", {}, make("summary", {}, name), make("pre", { tabindex: 0 }, value))] : []);
