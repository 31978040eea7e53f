// Beside htmx: shows whether the page is live, and reloads it when its session has ended.
"use strict";

(() => {
  const live = document.getElementById("live");
  const told = document.getElementById("connection");
  if (!live || !told) return;

  // Screen readers announce each change, so short interruptions are not shown.
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
