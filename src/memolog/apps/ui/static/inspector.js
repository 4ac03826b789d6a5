// What the pages of the inspector do in a browser: load the part of a page that changes again after a change in the database,
// and show which messages an observation comes from. Without this script every page still works.
"use strict";

const state = document.getElementById("live");

// ------------------------------------------------------------ live

// Farther than any column is long.
const END = 1e9;

// Whether a column is at its end, and nothing in it is selected: then it follows what comes.
function isFollowed(column) {
  return column.matches(".messages, .log") && !document.querySelector(".lit, .line[aria-current]")
    && column.scrollTop + column.clientHeight > column.scrollHeight - 4;
}

let pending = false;
// Whether something changed while the page was loading: what was loaded may be older.
let missed = false;

async function reload() {
  const part = document.querySelector("[data-live]");
  if (!part || document.hidden) return;
  // What somebody types into a field of this part would be lost. The page is loaded when the field is left.
  if (pending || document.activeElement?.closest("[data-live] :is(input, select, textarea)")) { missed = true; return; }
  pending = true;
  missed = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("[data-live]");
    if (!fresh || fresh.innerHTML === part.innerHTML) return;
    const open = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
    const focused = document.activeElement && document.activeElement.id;
    const scrolled = [...part.querySelectorAll("[data-scroll]")].map((one) => (isFollowed(one) ? END : one.scrollTop));
    part.replaceWith(fresh);
    for (const one of fresh.querySelectorAll("details[id]")) if (open.has(one.id)) one.open = true;
    fresh.querySelectorAll("[data-scroll]").forEach((one, at) => { one.scrollTop = scrolled[at] || 0; });
    if (window.htmx) window.htmx.process(fresh);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    document.dispatchEvent(new CustomEvent("inspector:loaded"));
    if (state) state.textContent = `updated ${new Date().toTimeString().slice(0, 8)}`;
  } finally {
    pending = false;
    if (missed) reload();
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

document.addEventListener("focusout", () => setTimeout(() => { if (missed) reload(); }));
document.addEventListener("visibilitychange", () => { if (!document.hidden) reload(); });
listen();

// ------------------------------------------------------------ the columns of a thread

// Return the numbers of an observation's messages, as pairs of first and last.
function spansOf(line) {
  return (line.dataset.spans || "").trim().split(/\s+/).filter(Boolean).map((one) => one.split("-").map(Number));
}

function clear() {
  for (const one of document.querySelectorAll(".message.lit, .line.lit")) one.classList.remove("lit");
  for (const one of document.querySelectorAll(".line[aria-current]")) one.removeAttribute("aria-current");
}

// Scroll inside a column, so that the page itself stays where it is.
function reveal(element) {
  const column = element.closest("[data-scroll]");
  if (!column || column.scrollHeight <= column.clientHeight) return;
  const far = element.getBoundingClientRect().top - column.getBoundingClientRect().top;
  column.scrollTo({ top: column.scrollTop + far - column.clientHeight / 4 });
}

// Of several lines, the one that the model sees is shown first.
function present(lines) {
  return lines.find((one) => !one.classList.contains("gone")) || lines[0];
}

function lightMessages(line) {
  const spans = spansOf(line);
  const found = [...document.querySelectorAll(".message")].filter((one) =>
    spans.some(([first, last]) => Number(one.dataset.seq) >= first && Number(one.dataset.seq) <= last));
  const wanted = spans.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  return { found, all: found.length === wanted };
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = event.target.closest && event.target.closest(".log .line a, .message a.seq");
  if (!link || !window.htmx) return;
  const line = link.closest(".log .line");
  let lit;
  if (line) {
    const { found } = lightMessages(line);
    // The messages are in another window: the link leads there.
    if (!found.length) return;
    lit = found;
  } else {
    const seq = Number(link.closest(".message").dataset.seq);
    lit = [...document.querySelectorAll(".log .line")].filter((one) =>
      spansOf(one).some(([first, last]) => seq >= first && seq <= last));
    if (!lit.length) return;
  }
  event.preventDefault();
  clear();
  for (const one of lit) one.classList.add("lit");
  (line || link.closest(".message")).classList.add("lit");
  reveal(line ? lit[0] : present(lit));
  if (line) {
    line.setAttribute("aria-current", "true");
    history.replaceState(null, "", link.href);
    window.htmx.ajax("GET", link.href, { target: "#sources", select: "#sources", swap: "outerHTML" }).then(() => {
      // On a small screen the sources are below the log.
      const sources = document.getElementById("sources");
      if (sources && sources.getBoundingClientRect().top > window.innerHeight * 0.8) sources.scrollIntoView();
    });
  }
});

// The log follows the messages: the first line that comes from the first visible message, or from a later one, is on top.
let following = false;
document.addEventListener("scroll", (event) => {
  const column = event.target;
  if (!(column instanceof Element) || !column.matches(".messages") || following || document.querySelector(".lit")) return;
  following = true;
  requestAnimationFrame(() => {
    following = false;
    const top = column.getBoundingClientRect().top;
    const first = [...column.querySelectorAll(".message")].find((one) => one.getBoundingClientRect().bottom > top);
    const log = document.querySelector(".log");
    if (!first || !log || log.scrollHeight <= log.clientHeight) return;
    const seq = Number(first.dataset.seq);
    const line = [...log.querySelectorAll(".line")].find((one) => spansOf(one).some(([, last]) => last >= seq));
    if (line) log.scrollTop += line.getBoundingClientRect().top - log.getBoundingClientRect().top - 60;
  });
}, true);

function arrive() {
  const lit = document.querySelector(".message.lit");
  if (lit) reveal(lit);
  else { const messages = document.querySelector(".messages"); if (messages && !location.search.includes("after=")) messages.scrollTop = messages.scrollHeight; }
  const line = document.querySelector(".log .line[aria-current]") || present([...document.querySelectorAll(".log .line.lit")]);
  const log = document.querySelector(".log");
  if (line) reveal(line);
  else if (log) log.scrollTop = log.scrollHeight;
}

if (document.querySelector(".messages")) arrive();
