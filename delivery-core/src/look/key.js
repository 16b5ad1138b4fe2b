(() => {
  const key = document.getElementById("key");
  const take = () => {
    const text = location.hash.slice(1);
    if (key && /^[0-9a-z]+_[0-9a-z]{48}$/.test(text)) {
      key.value = text;
      history.replaceState(null, "", location.pathname);
    }
  };
  take();
  addEventListener("hashchange", take);
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      const said = document.getElementById(button.dataset.said);
      try {
        await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
        said.textContent = "Copied.";
      } catch {
        said.textContent = "The browser does not allow it: select the text below.";
      }
    });
  }
})();
