import { createHash } from 'node:crypto';

/** The style of the reference. */
export const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --quiet: #767676; --accent: #0b62c4; }
@media (prefers-color-scheme: dark) { :root { --accent: #7ab8ff; --quiet: #9a9a9a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { margin: 0; } h2 { margin: 2.5rem 0 .5rem; } h3 { margin: 1rem 0 .25rem; font-size: 1rem; }
a { color: var(--accent); } p { margin: .5rem 0; }
code, pre { font: .875rem/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; margin: .25rem 0; padding: .5rem; background: var(--soft); border-radius: .25rem; }
nav ul { columns: 16rem; padding-left: 1rem; } .quiet { color: var(--quiet); }
details { border-top: 1px solid var(--line); } summary { padding: .5rem 0; cursor: pointer; overflow-wrap: anywhere; }
.inside { padding: 0 0 1rem 1rem; overflow-x: auto; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700; }
.get { color: #1a7f37; } .post { color: #0b62c4; } .put, .patch { color: #9a6700; } .delete { color: #cf222e; }
@media (prefers-color-scheme: dark) {
  .get { color: #56d364; } .post { color: #7ab8ff; } .put, .patch { color: #e3b341; } .delete { color: #ff8b82; }
}
dl { margin: .25rem 0; } dt { margin-top: .5rem; overflow-wrap: anywhere; } dd { margin: 0 0 0 1rem; }
.deprecated > code { text-decoration: line-through; }
.mark { padding: 0 .35rem; border: 1px solid var(--line); border-radius: .25rem; font-size: .75rem; }
`;

/** How a content security policy names that style. */
export const styleHash = `sha256-${createHash('sha256').update(style).digest('base64')}`;
