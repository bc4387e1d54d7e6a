// main.ts on Node: what was made of it, or the source itself through tsx where nothing could be made.
import { builtMain } from './built-sources.mjs';

// Errors name the lines of the sources.
process.setSourceMapsEnabled(true);
const built = await builtMain();
if (built === undefined) (await import('tsx/esm/api')).register();
await import(built ?? new URL('../main.ts', import.meta.url).href);
