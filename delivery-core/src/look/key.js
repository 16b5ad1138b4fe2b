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
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).value);
      button.textContent = "Copied";
    });
  }
})();
