// A live page: when a slot ends, the server sends new parts, and this script replaces the old ones. A list of runs of which some are
// still being read asks for itself again until it has them all.
// Without this script, every page is complete, but the user has to reload it.
"use strict";

(() => {
  // Keeps open tables open, and restores the scroll positions and the focus.
  const replace = (element, html) => {
    if (element.innerHTML === html) return;
    const open = [...element.querySelectorAll("details[open]")].map((details) => details.id);
    const checked = [...element.querySelectorAll("input:checked")].map((box) => box.id);
    const scrolled = [...element.querySelectorAll(".scroll")].map((region) => [region.scrollLeft, region.scrollTop]);
    const active = document.activeElement;
    const focus = element.contains(active) && (active.id ? `#${active.id}` : path(element, active));
    element.innerHTML = html;
    for (const id of open) { const details = document.getElementById(id); if (details) details.open = true; }
    for (const id of checked) { const box = document.getElementById(id); if (box) box.checked = true; }
    element.querySelectorAll(".scroll").forEach((region, at) => {
      if (scrolled[at]) [region.scrollLeft, region.scrollTop] = scrolled[at];
    });
    const again = typeof focus === "string" ? element.querySelector(focus) : focus && follow(element, focus);
    if (again) again.focus({ preventScroll: true });
  };
  const path = (from, to) => {
    if (!from.contains(to) || from === to) return null;
    const steps = [];
    for (let at = to; at !== from; at = at.parentElement) steps.unshift([...at.parentElement.children].indexOf(at));
    return steps;
  };
  const follow = (from, steps) => steps.reduce((at, step) => at && at.children[step], from);

  const list = document.getElementById("list");
  const readOn = async () => {
    const text = await fetch(location.href).then((answer) => (answer.ok ? answer.text() : "")).catch(() => "");
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = page.getElementById("list");
    if (fresh) {
      document.title = page.title;
      replace(list, fresh.innerHTML);
    }
    if (!fresh || "unread" in fresh.dataset) setTimeout(readOn, fresh ? 500 : 5000);
  };
  if (list && "unread" in list.dataset) setTimeout(readOn, 500);

  const live = document.querySelector("[data-events]");
  if (!live) return;
  const link = document.getElementById("link");
  const said = document.getElementById("said");
  const tell = (text) => { if (link.textContent !== text) link.textContent = text; };

  const show = (event) => {
    const news = JSON.parse(event.data);
    document.title = news.title + " – Plumbline";
    for (const [id, html] of Object.entries(news.parts)) {
      const element = document.getElementById(id);
      if (element) replace(element, html);
    }
    // Announce only changed verdicts: a slot every few seconds would drown out everything else.
    if (news.said.length > 0) said.textContent = news.said.join(". ");
  };

  const source = new EventSource(live.dataset.events);
  source.addEventListener("open", () => tell("This page follows the run. It is updated between measurements only."));
  source.addEventListener("error", () => tell("The connection was lost. The page tries again."));
  source.addEventListener("slot", (event) => { live.dataset.slots = JSON.parse(event.data).number; });
  source.addEventListener("view", show);
  source.addEventListener("end", (event) => {
    source.close();
    show(event);
    tell("This page no longer follows the run, as it has ended.");
    said.textContent = "The run has ended. " + said.textContent;
  });
  source.addEventListener("fault", (event) => {
    source.close();
    tell("The page failed to " + JSON.parse(event.data).words + ".");
  });
  window.addEventListener("pagehide", () => source.close());
})();
