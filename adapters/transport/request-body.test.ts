import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { RequestBody } from './http-call.ts';

const unexpected = (): void => assert.fail('the source did not break');

describe('request body', () => {
  it('passes on what the source gives, and asks for nothing before it is read', async () => {
    let asked = 0;
    const pieces = [Buffer.from('ab'), Buffer.from('cd'), null];
    const source = new Readable({
      read() {
        this.push(pieces[asked] ?? null);
        asked += 1;
      },
    });
    const body = new RequestBody(source, unexpected);
    await new Promise(setImmediate);
    assert.equal(asked, 0);
    const chunks: Buffer[] = [];
    for await (const chunk of body) chunks.push(chunk as Buffer);
    assert.equal(Buffer.concat(chunks).toString(), 'abcd');
    assert.equal(body.passedBytes, 4);
  });

  it('leaves the source whole and paused when it is destroyed', async () => {
    const source = new Readable({ read: () => undefined });
    const body = new RequestBody(source, unexpected);
    body.resume();
    source.push('ab');
    await new Promise(setImmediate);
    body.destroy();
    await new Promise(setImmediate);
    source.push('cd');
    await new Promise(setImmediate);
    assert.equal(source.destroyed, false);
    assert.equal(source.isPaused(), true);
    assert.equal(String(source.read()), 'cd', 'what was not passed on is still there');
  });

  it('ends at once when the source had ended before', async () => {
    const source = Readable.from([]);
    source.resume();
    await new Promise((resolve) => source.once('end', resolve));
    const body = new RequestBody(source, unexpected);
    body.resume();
    await new Promise((resolve) => body.once('end', resolve));
  });

  it('says when it waits for the source', async () => {
    const source = new Readable({ read: () => undefined });
    const body = new RequestBody(source, unexpected);
    assert.equal(body.waiting, false);
    body.read(0);
    assert.equal(body.waiting, true);
    source.push(null);
    await new Promise(setImmediate);
    assert.equal(body.waiting, false);
  });
});
