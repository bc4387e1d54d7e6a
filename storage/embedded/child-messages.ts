/** Parent → child, once, as the first message. Over the channel and not as arguments: those are visible to others. */
export interface StartMessage<Options> {
  readonly type: 'start';
  /** The port to listen on; 0 for any. A restarted child gets the port of the one before it. */
  readonly port: number;
  readonly options: Options;
}

/** Parent → child: finish what runs, close the data folder, exit. */
export interface StopMessage {
  readonly type: 'stop';
}

/** Child → parent: it answers on this port. */
export interface ReadyMessage {
  readonly type: 'ready';
  readonly port: number;
}

/**
 * Child → parent: it cannot start. `absent` means that a package is missing, so that trying again is useless; `busy`
 * that another process uses the data folder.
 */
export interface FailedMessage {
  readonly type: 'failed';
  readonly reason: 'absent' | 'busy' | 'other';
  readonly message: string;
}

/** Reads what a child sent, or undefined for anything else. */
export function readChildMessage(message: unknown): ReadyMessage | FailedMessage | undefined {
  if (typeof message !== 'object' || message === null) return undefined;
  const { type, port, reason, message: text } = message as Readonly<Record<string, unknown>>;
  if (type === 'ready' && typeof port === 'number') return { type, port };
  if (type === 'failed' && typeof text === 'string') {
    const known = reason === 'absent' || reason === 'busy' ? reason : 'other';
    return { type, reason: known, message: text };
  }
  return undefined;
}
