// What the console does beside htmx: says whether the page is live, and loads it again when its session has ended.
"use strict";

(() => {
  const live = document.getElementById("live");
  const told = document.getElementById("connection");
  if (!live || !told) return;

  // A reader hears this only when it changes, so short interruptions are not told.
  let timer = 0;
  const tell = (text, state, wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (told.dataset.state === state) return;
      told.dataset.state = state;
      told.textContent = text;
    }, wait);
  };

  live.addEventListener("htmx:sse:after:connection", () => tell("Live", "live", 0));
  live.addEventListener("htmx:sse:after:message", () => tell("Live", "live", 0));
  live.addEventListener("htmx:sse:error", (event) => {
    if (event.detail && event.detail.status === 401) location.reload();
    tell("Not connected. Trying again …", "lost", 2000);
  });
  live.addEventListener("reload", () => location.reload());
})();
