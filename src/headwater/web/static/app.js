// The only script: keys for lists, and live parts. Every page works without it.
"use strict";

(() => {
  const lines = () => [...document.querySelectorAll("[data-line]")];
  let chosen = -1;

  const choose = (place) => {
    const all = lines();
    if (!all.length) return;
    chosen = Math.max(0, Math.min(all.length - 1, place));
    all.forEach((line, number) => line.toggleAttribute("data-chosen", number === chosen));
    const link = all[chosen].querySelector("a");
    if (link) link.focus({ preventScroll: true });
    all[chosen].scrollIntoView({ block: "nearest" });
  };

  const current = () => {
    const focused = document.activeElement && document.activeElement.closest("[data-line]");
    return focused ? lines().indexOf(focused) : chosen;
  };

  const keys = {
    j: () => choose(current() + 1),
    k: () => choose(current() - 1),
    o: () => {
      const line = lines()[current()];
      const link = line && line.querySelector("a");
      if (link) link.click();
    },
    "/": () => {
      const box = document.querySelector("input[type=search]");
      if (box) {
        box.focus();
        box.select();
      } else {
        location.href = "/ui/search";
      }
    },
    "?": () => {
      const dialog = document.querySelector("dialog.keys");
      if (dialog && !dialog.open) dialog.showModal();
    },
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, dialog")) return;
    const act = keys[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // A narrow window scrolls the navigation. Show the place of this page in it.
  const here = document.querySelector(".main-nav [aria-current]");
  if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 16;

  const hint = document.querySelector(".keys-hint");
  if (hint) hint.hidden = false;

  // Live parts. An element with data-live names a topic. When the topic changes, the page is loaded again in the
  // background, and each element with data-part takes its new content. A hidden tab has no stream.
  const live = document.querySelector("[data-live]");
  if (!live || !window.EventSource) return;
  let stream = null;
  let shown = "";
  let loading = false;
  let again = false;

  const isUsed = (part) => {
    const active = document.activeElement;
    return part.contains(active) && active.matches("input, textarea, select");
  };

  const refresh = async () => {
    if (loading) {
      again = true;
      return;
    }
    loading = true;
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      const place = current();
      const hadFocus = document.activeElement && document.activeElement.closest("[data-line]");
      for (const part of document.querySelectorAll("[data-part]")) {
        const next = page.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
        if (!next || isUsed(part) || next.innerHTML === part.innerHTML) continue;
        const known = new Set([...part.querySelectorAll("[data-line]")].map((line) => line.dataset.line));
        for (const line of next.querySelectorAll("[data-line]")) {
          if (known.size && !known.has(line.dataset.line)) line.classList.add("fresh");
        }
        for (const kept of part.querySelectorAll("details[data-keep][open]")) {
          const same = next.querySelector(`details[data-keep="${CSS.escape(kept.dataset.keep)}"]`);
          if (same) same.open = true;
        }
        part.replaceChildren(...next.childNodes);
      }
      if (hadFocus && place >= 0) choose(place);
    } catch {
      // The stream reports the next change.
    } finally {
      loading = false;
      if (again) {
        again = false;
        refresh();
      }
    }
  };

  const open = () => {
    if (stream || document.hidden) return;
    stream = new EventSource(`/ui/live/${encodeURIComponent(live.dataset.live)}`);
    stream.onmessage = (event) => {
      if (event.data !== shown) refresh();
      shown = event.data;
    };
  };

  const close = () => {
    if (stream) stream.close();
    stream = null;
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
})();
