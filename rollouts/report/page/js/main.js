// Puts it together: filters, list, stage, buttons and keys.

let chosen = index.episodes;

function refilter() {
  chosen = chosenEpisodes();
  fillList(chosen, openOnStage);
  if (stage.entry !== null) markCurrent(stage.entry);
  if (chosen.length && !chosen.includes(stage.entry)) openOnStage(firstToShow());
}

// Something that can be played if there is any; failures stand above it in the list.
const firstToShow = () => chosen.find((entry) => entry.text !== null && hasTrouble(entry)) ?? chosen.find((entry) => entry.text !== null) ?? chosen[0];

function moveEpisode(step) {
  const place = chosen.indexOf(stage.entry) + step;
  if (place >= 0 && place < chosen.length) openOnStage(chosen[place]);
}

// In this episode, else in the next one of the list that has any.
function moveTrouble(step) {
  pause();
  const found = stage.data === null ? null : findTrouble(stage.data, stage.tick, step);
  if (found !== null) return seek(found);
  for (let place = chosen.indexOf(stage.entry) + step; place >= 0 && place < chosen.length; place += step) {
    if (chosen[place].text !== null && hasTrouble(chosen[place])) return openOnStage(chosen[place], step > 0 ? "trouble" : "last");
  }
  return undefined;
}

const KEYS = {
  " ": togglePlay,
  ArrowLeft: () => stepBy(-1),
  ArrowRight: () => stepBy(1),
  n: () => moveTrouble(1),
  p: () => moveTrouble(-1),
  j: () => moveEpisode(1),
  k: () => moveEpisode(-1),
  "/": () => byId("search").focus(),
};

function onKey(event) {
  const typing = event.target.closest("input, select, textarea");
  const pressing = event.key === " " && event.target.closest("button, summary, a");
  const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action || typing || pressing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  action();
}

function begin() {
  buildFilters(refilter);
  byId("play").addEventListener("click", togglePlay);
  byId("back").addEventListener("click", () => stepBy(-1));
  byId("forward").addEventListener("click", () => stepBy(1));
  byId("next-trouble").addEventListener("click", () => moveTrouble(1));
  byId("previous-trouble").addEventListener("click", () => moveTrouble(-1));
  byId("scrubber").addEventListener("input", (event) => {
    pause();
    seek(Number(event.target.value));
  });
  document.addEventListener("keydown", onKey);
  refilter();
}

begin();
