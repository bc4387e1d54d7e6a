import { stringifyExact } from '../exact-json.ts';
import type { JsonObject } from '../json-reading.ts';

/** Collects the frames of a Responses stream, each with its name and its number. */
export class EventLines {
  private text = '';
  private sequence = 0;

  /** Adds an event with these members. */
  add(type: string, members: JsonObject): void {
    this.addRaw(type, stringifyExact(members).slice(1, -1));
  }

  /** The same for members that are JSON already, without their braces. */
  addRaw(type: string, members: string): void {
    this.text += `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.sequence++},${members}}\n\n`;
  }

  /** The frames since the last call. */
  take(): string {
    const { text } = this;
    this.text = '';
    return text;
  }
}
