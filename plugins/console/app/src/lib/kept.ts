/** Where a page keeps what was typed: in this tab, until it is closed or its user signs out. */
const place = 'weir-playground';

/** Of the signed-in caller: another one of this tab neither sees nor changes what it keeps. Empty for none. */
let keeper = '';

interface Keeper {
  readonly organisation_id: string;
  readonly workspace_id: string | null;
  readonly id: string;
  readonly is_token: boolean;
}

/** The name under which a caller keeps. */
export function keeperOf({ organisation_id, workspace_id, id, is_token }: Keeper): string {
  return JSON.stringify([organisation_id, workspace_id, id, is_token]);
}

/** From now on this caller keeps; what another one has left is removed. */
export function keepFor(caller: Keeper): void {
  keeper = keeperOf(caller);
  if (keptText(keeper) === undefined) remove();
}

/** Nothing is kept any more, and nothing can be until somebody signs in. */
export function forgetKept(): void {
  keeper = '';
  remove();
}

/** What this caller has kept; undefined for nothing. */
export function keptText(of: string): string | undefined {
  try {
    const text = sessionStorage.getItem(place);
    return text?.startsWith(`${of}\n`) === true ? text.slice(of.length + 1) : undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a text for a caller, unless somebody else is signed in by now. */
export function keep(of: string, text: string): void {
  if (of !== keeper) return;
  try {
    sessionStorage.setItem(place, `${of}\n${text}`);
  } catch {
    // The browser has no room, or refuses: what stood there before is no longer true.
    remove();
  }
}

function remove(): void {
  try {
    sessionStorage.removeItem(place);
  } catch {
    // Where nothing can be kept, nothing is there.
  }
}
