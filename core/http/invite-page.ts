import { createHash } from 'node:crypto';
import { escapeHtml } from './openapi/render-schema.ts';
import { style } from './openapi/reference-style.ts';
import { staticPage, type StaticPage } from './static-page.ts';

const script = `
const form = document.forms[0], said = document.querySelector('output'), token = location.hash.slice(1);
const say = (text) => { said.textContent = text; };
if (token === '') { form.hidden = true; say('This link was not copied whole: what stands behind the # is missing.'); }
form.addEventListener('submit', async (event) => {
  event.preventDefault();
  form.querySelector('button').disabled = true;
  const names = Object.fromEntries(new FormData(form));
  try {
    const answer = await fetch(document.body.dataset.accept, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, ...names }),
    });
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.data?.message ?? told.error?.message ?? 'Refused.');
    form.hidden = true;
    const keys = told.api_keys.map((one) => one.key + '   (workspace ' + one.workspace_id + ')');
    say(['Welcome, ' + told.user.email + '.', ...(keys.length > 0
      ? ['Your keys. They are shown now and never again:', ...keys]
      : ['No key was made for you: ask for one.'])].join('\\n'));
  } catch (error) {
    form.querySelector('button').disabled = false;
    say(error.message);
  }
});
`;

const looks = `${style} label { display: block; margin: .75rem 0; } output { display: block; white-space: pre-wrap; overflow-wrap: anywhere; margin-top: 1rem; }`;

/** The page that the link of an invite leads to. It holds no secret: the token stays behind the `#`, in the browser. */
export function createInvitePage({ base_path: basePath }: { readonly base_path: string }): StaticPage {
  const hash = (text: string): string => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  return staticPage(
    `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Invitation</title><style>${looks}</style></head>
<body data-accept="${escapeHtml(basePath === '/' ? '' : basePath)}/invites/accept"><h1>You are invited</h1>
<form><label>First name <input name="first_name" maxlength="255" autocomplete="given-name"></label>
<label>Last name <input name="last_name" maxlength="255" autocomplete="family-name"></label>
<button>Accept</button></form><output></output><script>${script}</script></body></html>
`,
    {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `default-src 'none'; style-src ${hash(looks)}; script-src ${hash(script)}; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      'referrer-policy': 'no-referrer',
    },
  );
}
