// Registers passkeys and signs in with them. The buttons are hidden where the browser has no passkeys.
"use strict";

(() => {
  // A passkey belongs to a host name; an address has none.
  const named = !/^[\d.]+$|:/.test(location.hostname);
  const able = window.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON && window.isSecureContext && named;
  if (!able) return;

  const say = (form, text) => {
    const line = form.querySelector("[data-passkey-problem]");
    line.textContent = text;
    line.hidden = !text;
  };

  const post = async (path, body) => {
    const answer = await fetch(path, {
      method: "POST",
      headers: body ? { "Content-Type": "application/json" } : {},
      body: body ? JSON.stringify(body) : null,
    });
    const data = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(data.problem || data.detail || "The server refused the request.");
    return data;
  };

  const ceremony = {
    async add(form) {
      const options = await post("/config/passkeys/begin");
      const credential = await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(options.publicKey) });
      return post("/config/passkeys", { name: form.elements.name.value, role: form.elements.role.value, credential: credential.toJSON() });
    },
    async "sign-in"(form) {
      const options = await post("/login/passkey/begin");
      const credential = await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(options.publicKey) });
      return post("/login/passkey", { next: form.dataset.next, credential: credential.toJSON() });
    },
  };

  for (const form of document.querySelectorAll("form[data-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      button.disabled = true;
      say(form, "");
      try {
        const { next } = await ceremony[form.dataset.passkey](form);
        location.assign(next);
      } catch (problem) {
        say(form, problem.name === "NotAllowedError" ? "Nothing was done: the device was not asked, or refused." : problem.message);
      } finally {
        button.disabled = false;
      }
    });
  }
})();
