// What the pages of the inspector do in a browser: load the part of a page that changes again after a change in the database,
// and show which messages an observation comes from. Without this script every page still works.
"use strict";

const state = document.getElementById("live");

// ------------------------------------------------------------ live

let pending = false;

async function reload() {
  const part = document.querySelector("[data-live]");
  if (!part || pending || document.hidden) return;
  pending = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
    if (!fresh || fresh.innerHTML === part.innerHTML) return;
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
    const focused = document.activeElement && document.activeElement.id;
    const scrolled = [...part.querySelectorAll("[data-scroll]")].map((one) => one.scrollTop);
    part.replaceWith(fresh);
    for (const one of fresh.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
    fresh.querySelectorAll("[data-scroll]").forEach((one, at) => { one.scrollTop = scrolled[at] || 0; });
    if (window.htmx) window.htmx.process(fresh);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("inspector:loaded"));
    if (state) state.textContent = `updated ${new Date().toTimeString().slice(0, 8)}`;
  } finally {
    pending = false;
  }
}

function listen() {
  if (!state || !document.body.dataset.events || !document.querySelector("[data-live]")) return;
  const source = new EventSource(document.body.dataset.events);
  source.addEventListener("open", () => { state.hidden = false; state.textContent = "live"; state.dataset.state = "on"; });
  source.addEventListener("error", () => { state.hidden = false; state.textContent = "not connected"; state.dataset.state = "off"; });
  source.addEventListener("changed", (event) => {
    document.dispatchEvent(new CustomEvent("inspector:changed", { detail: JSON.parse(event.data) }));
    reload();
  });
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) reload(); });
listen();
