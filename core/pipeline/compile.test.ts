import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readFeatures } from '../access/features.ts';
import { compilePipeline } from './compile.ts';
import type { PluginInstance } from './call-hook.ts';
import { definePlugin, type Capabilities, type Hooks } from './plugin.ts';

const nothing = (): void => undefined;

function instance(name: string, hooks: Hooks, capabilities: Capabilities = {}): PluginInstance {
  const definition = definePlugin({ name, capabilities, create: () => hooks });
  return { definition, name, hooks, onError: 'fail', timeoutMs: 0, builtIn: true };
}

const compile = (...instances: PluginInstance[]) =>
  compilePipeline({ name: 'p', match: { path: '/**' }, plugins: [] }, instances);

describe('a compiled pipeline', () => {
  it('has each phase in its order, and nothing for plugins without the hook', () => {
    const hooks: Hooks = {
      request: nothing,
      attempt: nothing,
      response: nothing,
      settled: nothing,
      attempted: nothing as () => undefined,
    };
    const compiled = compile(
      instance('a', hooks),
      instance('b', {}),
      instance('c', { ...hooks, stream: nothing as () => undefined }, { stream: 'window' }),
      instance('d', { response: nothing }, { stream: 'hold' }),
    );
    const places = (steps: readonly { instance: PluginInstance; index: number }[]): string =>
      steps.map((step) => `${step.instance.name}${step.index}`).join(' ');
    assert.equal(places(compiled.request), 'a0 c2');
    assert.equal(places(compiled.attempt), 'a0 c2');
    assert.equal(places(compiled.attempted), 'c2 a0');
    assert.equal(places(compiled.response), 'd3 c2 a0');
    assert.equal(places(compiled.taps), 'd3 c2');
    assert.equal(places(compiled.settled), 'a0 c2');
  });

  it('leaves out guardrails while these are switched off, and says which', () => {
    const placed = [
      instance('a', { request: nothing }),
      instance('b', { request: nothing }, { guardrail: true }),
      instance('c', { settled: nothing }),
    ];
    const config = { name: 'p', match: { path: '/**' }, plugins: [] };
    const names = ({ instances, leftOut }: ReturnType<typeof compile>) =>
      [instances, leftOut].map((list) => list.map(({ name }) => name).join(' '));
    const off = compilePipeline(config, placed, readFeatures({ GUARDRAILS_ENABLED: 'OFF' }));
    assert.deepEqual(names(off), ['a c', 'b']);
    assert.deepEqual([off.request.length, off.settled[0]?.index], [1, 1]);
    assert.deepEqual(names(compilePipeline(config, placed, readFeatures({}))), ['a b c', '']);
    assert.deepEqual(names(compile(...placed)), ['a b c', '']);
  });

  it('keeps `this` of a plugin whose hooks are methods', () => {
    class Counting implements Hooks {
      count = 0;
      request(): void {
        this.count++;
      }
    }
    const hooks = new Counting();
    const [step] = compile(instance('a', hooks)).request;
    void step?.run({} as never);
    assert.equal(hooks.count, 1);
  });

  const loads: readonly [Capabilities, 'never' | 'json' | 'always'][] = [
    [{}, 'never'],
    [{ reads: ['response.json'] }, 'never'],
    [{ reads: ['request.json'] }, 'json'],
    [{ changes: ['request.text'] }, 'json'],
    [{ reads: ['request.text', 'request.body'] }, 'always'],
    [{ reads: ['request.text'], changes: ['request.body'] }, 'always'],
  ];
  for (const [capabilities, expected] of loads) {
    it(`${JSON.stringify(capabilities)} loads the body: ${expected}`, () => {
      const [step] = compile(instance('a', { request: nothing }, capabilities)).request;
      assert.equal(step?.loadsBody, expected);
    });
  }

  const taps: readonly [Capabilities['stream'], boolean, string][] = [
    ['observe', true, 'tap, only observes'],
    ['window', true, 'tap, judges'],
    ['hold', false, 'hold, judges'],
    ['ignore', false, 'none'],
    [undefined, false, 'none'],
  ];
  for (const [stream, hasHook, expected] of taps) {
    it(`stream: ${stream}: ${expected}`, () => {
      const hooks: Hooks = { response: nothing, ...(hasHook ? { stream: () => undefined } : {}) };
      const [tap] = compile(instance('a', hooks, stream === undefined ? {} : { stream })).taps;
      assert.equal(tap ? `${tap.mode}, ${tap.judges ? 'judges' : 'only observes'}` : 'none', expected);
    });
  }

  it('keeps as many bytes of an answer as the plugin that wants most', () => {
    const keeping = (bytes: number) => instance('a', {}, { keepsResponseBytes: bytes });
    assert.equal(compile(keeping(5), keeping(9), instance('b', {})).keepsResponseBytes, 9);
    assert.equal(compile(instance('b', {})).keepsResponseBytes, 0);
  });
});
