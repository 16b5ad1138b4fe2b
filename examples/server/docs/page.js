// A search, and a form for each endpoint. Without this script the page is to be read.
"use strict";
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
document.documentElement.classList.add("works");

const search = document.getElementById("search");
search.addEventListener("input", () => {
  const words = search.value.toLowerCase().split(/\s+/);
  for (const article of all("article")) {
    const text = article.textContent.toLowerCase();
    article.hidden = !words.every((word) => text.includes(word));
    all(`nav a[href="#${article.id}"]`).forEach((link) => (link.parentElement.hidden = article.hidden));
  }
});

const readable = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

const send = async (form) => {
  const { method, secret, path } = form.dataset;
  const [query, headers] = [new URLSearchParams(), {}];
  let target = path;
  for (const { name, value, dataset } of all("[data-in]", form).filter((field) => field.value !== "")) {
    if (dataset.in === "path") target = target.replace(`{${name}}`, encodeURIComponent(value));
    else if (dataset.in === "query") query.append(name, value);
    else headers[name] = value;
  }
  const proof = secret && document.getElementById(secret).value.trim();
  if (proof) headers.Authorization = `Bearer ${proof}`;
  const [text, file] = [form.querySelector("textarea"), form.querySelector("[type=file]")];
  if (text) headers["Content-Type"] = "application/json";
  const address = new URL(`.${target}`, location.href);
  address.search = query;
  // The page has no cookie that could stand for the seller.
  return fetch(address, { method, headers, body: text ? text.value : file?.files[0], credentials: "omit" });
};

for (const form of all("form[data-method]")) {
  const [state, body] = [form.querySelector("[role=status]"), form.querySelector("pre")];
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    state.textContent = "Sent, and not answered yet";
    try {
      const reply = await send(form);
      body.textContent = readable(await reply.text());
      state.textContent = `Answered ${reply.status}`;
    } catch (error) {
      body.textContent = "";
      state.textContent = `No answer: ${error.message}`;
    }
    body.hidden = body.textContent === "";
  });
}
