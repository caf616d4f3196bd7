"use strict";
(() => {
  for (const code of document.querySelectorAll("[data-origin]")) {
    code.textContent = code.textContent.replaceAll("http://127.0.0.1:7410", location.origin);
  }

  for (const button of document.querySelectorAll(".copy")) {
    if (!navigator.clipboard) break;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  const search = document.getElementById("search");
  if (!search) return;
  const articles = [...document.querySelectorAll("article")].map((element) => ({
    element, text: element.textContent.toLowerCase(),
  }));
  const links = new Map([...document.querySelectorAll("nav [data-for]")].map((li) => [li.dataset.for, li]));

  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const { element, text } of articles) {
      const shown = words.every((word) => text.includes(word));
      element.hidden = !shown;
      links.get(element.id).hidden = !shown;
      found += shown;
    }
    for (const group of document.querySelectorAll("[data-group]")) {
      group.hidden = !group.querySelector("article:not([hidden]), li:not([hidden])");
    }
    document.getElementById("nothing").hidden = found > 0;
    document.querySelector(".intro").hidden = words.length > 0;
  };
  search.addEventListener("input", filter);

  const clear = () => { search.value = ""; filter(); };
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && document.activeElement === search) {
      clear();
      search.blur();
    }
  });

  // A link to something that the search has hidden shows it.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const target = link && document.getElementById(decodeURIComponent(link.hash.slice(1)));
    if (target && target.closest("[hidden]")) clear();
  });

  const mark = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      links.get(target.id).classList.toggle("here", isIntersecting);
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  for (const { element } of articles) mark.observe(element);
})();
