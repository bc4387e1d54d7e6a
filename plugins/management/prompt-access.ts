import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { Directory } from '../../core/ports/directory.ts';
import type { Actor } from './api-key-access.ts';
import { settingsFor } from './data-visibility.ts';

/**
 * Throws `scope_missing`, naming the setting, when the caller's role may not see, or not edit, the prompts of its
 * workspace with what belongs to them: collections, partials and labels.
 */
export function requirePrompts(
  actor: Actor,
  directory: Pick<Directory, 'settingsIn' | 'user'>,
  what: 'View' | 'Write',
): void {
  const settings = settingsFor(actor, directory)?.prompts;
  if (settings === undefined) return;
  const who = actor.role === 'manager' ? 'managers' : 'members';
  const name = `${who}${what}Prompts` as const;
  if (settings[name]) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${actor.key.name}" acts as ${actor.role}, and ${who} of its workspace may not ${what === 'View' ? 'see' : 'edit'} prompts: the setting ${name} is off. An owner or admin of the organisation changes it.`,
  );
}
