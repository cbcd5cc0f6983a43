(function (window, document) {
  "use strict";
  var STORE_KEY = "reader-consent";
  var ONE_YEAR = 365 * 24 * 60 * 60 * 1000;
  var queue = [];

  function readChoice() {
    try {
      var saved = JSON.parse(window.localStorage.getItem(STORE_KEY) || "null");
      return saved && Date.now() - saved.at < ONE_YEAR ? saved.choice : null;
    } catch (error) {
      return null;
    }
  }

  function saveChoice(choice) {
    try {
      window.localStorage.setItem(STORE_KEY, JSON.stringify({ choice: choice, at: Date.now() }));
    } catch (error) {
      queue.push({ event: "consent-not-saved", message: String(error) });
    }
  }

  function hideNotice(notice) {
    notice.setAttribute("hidden", "hidden");
    document.documentElement.classList.remove("has-notice");
  }

  function showNotice(notice) {
    document.documentElement.classList.add("has-notice");
    notice.addEventListener("click", function (event) {
      var choice = event.target.getAttribute("data-choice");
      if (choice === null) {
        return;
      }
      saveChoice(choice);
      hideNotice(notice);
    });
  }

  function toggleMenu(button, menu) {
    button.addEventListener("click", function () {
      var open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      menu.classList.toggle("is-open", !open);
    });
  }

  function loadLazily(images) {
    if (!("IntersectionObserver" in window)) {
      return;
    }
    var observer = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (entry.isIntersecting) {
          entry.target.classList.add("is-near");
          observer.unobserve(entry.target);
        }
      });
    }, { rootMargin: "200px 0px" });
    Array.prototype.forEach.call(images, function (image) { observer.observe(image); });
  }

  function reportTimings() {
    if (!window.performance || !window.performance.getEntriesByType) {
      return;
    }
    var navigation = window.performance.getEntriesByType("navigation")[0];
    if (navigation) {
      queue.push({ event: "timing", ready: Math.round(navigation.domContentLoadedEventEnd), bytes: navigation.transferSize });
    }
  }

  document.addEventListener("DOMContentLoaded", function () {
    var notice = document.getElementById("cookie-notice");
    if (notice) {
      if (readChoice() === null) { showNotice(notice); } else { hideNotice(notice); }
    }
    var button = document.querySelector("[data-menu-button]");
    var menu = document.querySelector("[data-menu]");
    if (button && menu) { toggleMenu(button, menu); }
    loadLazily(document.querySelectorAll("img[loading=lazy]"));
  });
  window.addEventListener("load", reportTimings);
  window.readerEvents = queue;
})(window, document);
