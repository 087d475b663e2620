// Adds the decisions that the server sends to the top of the list; the button pauses that, and so does a hidden tab,
// because a browser opens only six connections to one server.
"use strict";
const list = document.getElementById("decisions");
const button = document.getElementById("pause");
const state = document.getElementById("live-status");
let source = null;
let paused = false;

function add(event) {
  const row = document.createElement("template");
  row.innerHTML = event.data; // made by our templates, which escape every text
  const made = row.content.firstElementChild;
  if (!made || document.getElementById(made.id)) return;
  list.prepend(made);
  for (const old of [...list.children].slice(Number(list.dataset.most)))
    if (!old.contains(document.activeElement)) old.remove();
}

function start() {
  const newest = list.querySelector("time");
  const after = newest ? `&after=${encodeURIComponent(newest.dateTime)}` : "";
  source = new EventSource(list.dataset.stream + after);
  source.onmessage = add;
  source.onopen = () => { state.textContent = "Live"; };
  source.onerror = () => { state.textContent = "The connection is lost; trying again"; };
  source.addEventListener("away", () => { state.textContent = "The decision log cannot be read"; });
}

function follow() {
  const wanted = !paused && !document.hidden;
  if (wanted && source === null) start();
  if (!wanted && source !== null) { source.close(); source = null; }
}

button.addEventListener("click", () => {
  paused = !paused;
  if (paused) state.textContent = "Paused";
  button.textContent = paused ? "Go on" : "Pause";
  follow();
});
document.addEventListener("visibilitychange", follow);
button.hidden = false;
follow();
