// Beside htmx: shows whether the page is live, and reloads it when its session has ended.
"use strict";

(() => {
  const live = document.getElementById("live");
  const shown = document.getElementById("connection");
  if (!live || !shown) return;

  // Screen readers announce each change, so short interruptions are not shown.
  let timer = 0;
  const show = (text, state, wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (shown.dataset.state === state) return;
      shown.dataset.state = state;
      shown.textContent = text;
    }, wait);
  };

  live.addEventListener("htmx:sse:after:connection", () => show("Live", "live", 0));
  live.addEventListener("htmx:sse:after:message", () => show("Live", "live", 0));
  live.addEventListener("htmx:sse:error", (event) => {
    if (event.detail && event.detail.status === 401) location.reload();
    show("Not connected. Trying again …", "lost", 2000);
  });
  live.addEventListener("reload", () => location.reload());
})();
