// What is on the stage: one episode at one decision, playing or not.

const TICS_PER_S = 35;
const [PLAY_SIGN, PAUSE_SIGN] = ["M4 2l10 6-10 6z", "M4 2h3v12H4zM10 2h3v12h-3z"];
const stage = { entry: null, data: null, tick: 0, timer: null, urls: new Map(), opening: 0 };

// `at`: where to begin; "trouble" for the first disagreement, "last" for the last one.
async function openOnStage(entry, at = "trouble") {
  pause();
  const opening = (stage.opening += 1);
  const data = entry.text === null ? null : await openEpisode(entry);
  if (opening !== stage.opening) return;
  forgetPictures();
  Object.assign(stage, { entry, data });
  showEntry(entry);
  markCurrent(entry);
  byId("player").hidden = data === null;
  for (const id of ["charts", "state", "decision", "probabilities", "more-texts"]) fill(id);
  if (data === null) return void (byId("summary-section").hidden = true);
  byId("scrubber").max = data.steps - 1;
  drawCharts(data, seek);
  showSummaries(data, seek);
  seek(startOf(data, at));
}

function startOf(data, at) {
  if (at === "last") return findTrouble(data, data.steps, -1) ?? data.steps - 1;
  return at === "trouble" ? (findTrouble(data, -1) ?? 0) : at;
}

function showEntry(entry) {
  const group = groupOf(entry);
  fill("stage-title", `${group.scenario}, ${group.policy}, seed ${entry.seed}`);
  fill("stage-facts", ...entryFacts(entry, group));
  showVerdicts(entry);
}

function entryFacts(entry, group) {
  if (entry.status === "failed") return [make("span", { class: "bad" }, `Failed at stage ${entry.stage}: ${entry.cause}. It has no decisions and no metric.`)];
  const parts = [`${group.rubric}, ${number(entry.metric)} ${group.name} (${group.unit}), ${counted(entry.steps, "decision")}, ended by ${entry.end ?? "?"}`];
  if (entry.asked) parts.push(`, disagrees in ${number(entry.disagreements)} of ${number(entry.asked)}`);
  if (entry.outOfSchema) parts.push(", ", make("span", { class: "bad" }, `${number(entry.outOfSchema)} out of schema`));
  if (entry.text === null && entry.steps) parts.push(". Its decisions are not in this file.");
  return parts;
}

function seek(tick) {
  const { data } = stage;
  if (data === null) return;
  stage.tick = Math.min(data.steps - 1, Math.max(0, tick));
  showPicture(data, stage.tick);
  showDecision(data, stage.tick);
  moveCursor(data, stage.tick);
  markSummary(stage.tick);
  byId("scrubber").value = stage.tick;
  fill("position", `decision ${number(stage.tick + 1)} of ${number(data.steps)}, game tic ${number(data.columns.game_tic[stage.tick])}`);
}

function showPicture(data, tick) {
  const picture = byId("picture");
  const url = pictureUrl(data, tick);
  picture.hidden = url === null;
  byId("no-picture").hidden = url !== null;
  if (url === null) return fill("no-picture", stage.entry.pictures === null ? "No pictures of this episode are in this file." : "This decision has no picture.");
  picture.alt = `What the policy saw before decision ${tick + 1}`;
  picture.src = url;
  if (tick + 1 < data.steps) pictureUrl(data, tick + 1);
  return undefined;
}

function pictureUrl(data, tick) {
  if (!data.pictures[tick]?.length) return null;
  if (!stage.urls.has(tick)) stage.urls.set(tick, URL.createObjectURL(new Blob([data.pictures[tick]], { type: "image/webp" })));
  return stage.urls.get(tick);
}

function forgetPictures() {
  for (const url of stage.urls.values()) URL.revokeObjectURL(url);
  stage.urls.clear();
}

function play() {
  if (stage.data === null) return;
  if (stage.tick === stage.data.steps - 1) seek(0);
  setPlaying(true);
  stage.timer = setTimeout(advance, pauseMs());
}

function advance() {
  seek(stage.tick + 1);
  if (stage.tick === stage.data.steps - 1) return pause();
  stage.timer = setTimeout(advance, pauseMs());
  return undefined;
}

// As long as the decision took in the game; thinking took no game time, unless in real time.
function pauseMs() {
  const tics = groupOf(stage.entry).tics + (stage.data.columns.waited_tics[stage.tick] ?? 0);
  return ((tics / TICS_PER_S) * 1000) / Number(byId("speed").value);
}

function pause() {
  clearTimeout(stage.timer);
  stage.timer = null;
  setPlaying(false);
}

const togglePlay = () => (stage.timer === null ? play() : pause());

function setPlaying(playing) {
  byId("play").setAttribute("aria-label", playing ? "Pause" : "Play");
  byId("play").querySelector("path").setAttribute("d", playing ? PAUSE_SIGN : PLAY_SIGN);
}

function stepBy(steps) {
  pause();
  seek(stage.tick + steps);
}
