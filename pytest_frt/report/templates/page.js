"use strict";
(() => {
  const root = document.documentElement;
  const store = {
    get() { try { return localStorage.getItem("frt-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("frt-theme", value); } catch { /* a page without storage forgets it */ } },
  };
  const themes = ["system", "light", "dark"];
  const button = document.getElementById("theme");
  const show = (theme) => {
    if (theme === "system") delete root.dataset.theme; else root.dataset.theme = theme;
    button.textContent = `Colours: ${theme}`;
  };
  let theme = themes.includes(store.get()) ? store.get() : "system";
  show(theme);
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    store.set(theme);
    show(theme);
  });

  const said = document.getElementById("said");
  const select = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  for (const copy of document.querySelectorAll("button[data-copy]")) {
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      const code = document.getElementById(copy.dataset.copy);
      try {
        await navigator.clipboard.writeText(code.textContent);
        copy.textContent = "Copied";
        said.textContent = "Command copied";
      } catch {
        select(code);
        said.textContent = "Command selected: copy it with your keyboard";
      }
      setTimeout(() => { copy.textContent = "Copy"; said.textContent = ""; }, 2000);
    });
  }

  const unfold = (node) => {
    for (let at = node; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  };
  const follow = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) { unfold(target); target.scrollIntoView(); }
  };
  addEventListener("hashchange", follow);
  follow();
  addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
})();
