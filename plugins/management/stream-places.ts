import { GatewayError } from '../../core/pipeline/plugin.ts';

const mostOfGateway = 20;
const mostOfKey = 3;

/** How many streams are open, in all and by key. */
export class StreamPlaces {
  private readonly byKey = new Map<string, number>();
  private all = 0;

  /** Takes a place; the returned function gives it back, however often it is called. Throws `too_many_streams`. */
  take(keyId: string): () => void {
    const ofKey = this.byKey.get(keyId) ?? 0;
    if (ofKey >= mostOfKey) throw full(`This key follows the log in ${mostOfKey} streams already`);
    if (this.all >= mostOfGateway)
      throw full(`This gateway serves ${mostOfGateway} streams of the log already`);
    this.all += 1;
    this.byKey.set(keyId, ofKey + 1);
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      this.all -= 1;
      const left = (this.byKey.get(keyId) ?? 1) - 1;
      if (left === 0) this.byKey.delete(keyId);
      else this.byKey.set(keyId, left);
    };
  }
}

function full(what: string): GatewayError {
  return new GatewayError('too_many_streams', `${what}, the most. End one of them first.`, {
    headers: ['retry-after', '10'],
  });
}
