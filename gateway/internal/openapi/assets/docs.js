"use strict";
// The viewer has a theme instead of following the system's.
(() => {
  const api = document.getElementById("api");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => {
    api.setAttribute("theme", dark.matches ? "dark" : "light");
    api.setAttribute("bg-color", dark.matches ? "#14131c" : "#ffffff");
    api.setAttribute("text-color", dark.matches ? "#e8e6f4" : "#1c1b2b");
    api.setAttribute("primary-color", dark.matches ? "#a99bff" : "#5b47d6");
  };
  dark.addEventListener("change", follow);
  follow();
})();
