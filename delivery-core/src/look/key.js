(() => {
  const key = document.getElementById("key");
  const other = document.getElementById("other");
  const take = () => {
    const text = location.hash.slice(1);
    // Mail programs add what follows a link. The server finds the key in it.
    const isKey = /_[0-9a-z]{48}/i.test(text);
    // Also makes "back" and "reload" ask for this page anew, in place of sending its form again.
    if (isKey || !location.hash) history.replaceState(null, "", location.pathname + location.search);
    if (isKey && key) key.value = text;
    if (isKey && other) {
      other.elements.key.value = text;
      other.submit();
    }
  };
  if (key || other) {
    take();
    addEventListener("hashchange", take);
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      const from = document.getElementById(button.dataset.copy);
      const said = document.getElementById(button.dataset.said);
      try {
        await navigator.clipboard.writeText(from.value ?? from.textContent);
        said.textContent = button.dataset.done ?? "Copied.";
      } catch {
        said.textContent = button.dataset.failed ?? "The browser does not allow it: select the text.";
      }
    });
  }
})();
