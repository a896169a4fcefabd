// Keeps the parts of a page that are marked data-live up to date. The server makes them: when it says that something has
// changed, the page is fetched again and those parts are taken from it. Without this script the page has a link to reload.
"use strict";
(() => {
  const parts = document.querySelectorAll("[data-live]");
  if (parts.length === 0 || !window.EventSource) return;
  const reload = document.getElementById("reload");
  const following = document.getElementById("following");
  let fetching = false, again = false;

  const take = (part, fresh) => {
    if (!fresh || part.innerHTML === fresh.innerHTML) return;
    const focused = part.contains(document.activeElement) ? document.activeElement : null;
    part.replaceChildren(...fresh.childNodes);
    if (focused && focused.href) {
      const same = [...part.querySelectorAll("a")].find((a) => a.href === focused.href);
      if (same) same.focus();
    }
  };

  const refresh = async () => {
    if (fetching) { again = true; return; }
    fetching = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of parts) take(part, page.getElementById(part.id));
    } catch {
      // The daemon has gone away; the stream says so too, and comes back by itself.
    } finally {
      fetching = false;
      if (again) { again = false; refresh(); }
    }
  };

  const source = new EventSource("/api/v1/events");
  const follows = (yes) => { reload.hidden = yes; following.hidden = !yes; };
  source.addEventListener("live", () => { follows(true); refresh(); });
  source.addEventListener("error", () => follows(false));
})();
