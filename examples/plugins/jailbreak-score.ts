// Scores each prompt with a model on this machine, refuses it from `limit` on, and tells the provider the score of the
// others in `x-jailbreak-score`. Install `onnxruntime-node` and `@huggingface/tokenizers` beside this file. The built-in
// plugin `local-classifier` does more: long texts in pieces, a thread of its own, a check for guardrails.
//
//   - ./jailbreak-score.ts: { folder: /models/jailbreak, label: 1, limit: 0.9 }
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { definePlugin, GatewayError, judged, Type } from 'weir-gateway/plugin';

/** The used part of these packages, which this repository does not install. */
interface Onnx {
  Tensor: new (type: 'int64', data: BigInt64Array, dims: number[]) => unknown;
  InferenceSession: { create(file: string): Promise<{ inputNames: string[]; run: Run }> };
}
type Run = (feeds: Record<string, unknown>) => Promise<{ logits: { data: ArrayLike<number> } }>;
interface Tokenizers {
  Tokenizer: new (tokenizer: object, config: object) => { encode(text: string): { ids: number[] } };
}

export default definePlugin({
  name: 'jailbreak-score',
  description: 'Scores prompts with an ONNX text classifier.',
  schema: Type.Object(
    {
      folder: Type.String({ minLength: 1, description: 'Has `model.onnx` and `tokenizer.json`.' }),
      label: Type.Integer({ minimum: 0, description: 'The place of the label among those of the model.' }),
      limit: Type.Number({ minimum: 0, maximum: 1 }),
    },
    { additionalProperties: false },
  ),
  capabilities: { reads: ['request.text'], guardrail: true },
  async create({ folder, label, limit }) {
    const { InferenceSession, Tensor } = (await import('onnxruntime-node' satisfies string)) as Onnx;
    const { Tokenizer } = (await import('@huggingface/tokenizers' satisfies string)) as Tokenizers;
    const file = await readFile(path.join(folder, 'tokenizer.json'), 'utf8');
    const tokenizer = new Tokenizer(JSON.parse(file) as object, {});
    const session = await InferenceSession.create(path.join(folder, 'model.onnx'));
    const scoreOf = async (text: string): Promise<number> => {
      const ids = tokenizer.encode(text).ids.slice(0, 512);
      const filled = (of: number[]) => new Tensor('int64', BigInt64Array.from(of, BigInt), [1, ids.length]);
      const input = (name: string) =>
        ids.map((id) => (name === 'input_ids' ? id : name === 'attention_mask' ? 1 : 0));
      const feeds = Object.fromEntries(session.inputNames.map((name) => [name, filled(input(name))]));
      const powers = Array.from((await session.run(feeds)).logits.data, Math.exp);
      return (powers[label] ?? 0) / powers.reduce((sum, power) => sum + power, 0);
    };
    return {
      async request(context) {
        const asked = context.conversation.texts.filter(({ role }) => role === 'user');
        const score = Math.max(0, ...(await Promise.all(asked.map(({ text }) => scoreOf(text)))));
        if (score >= limit) throw new GatewayError('hooks_failed', 'The prompt looks like a jailbreak.');
        context.set(judged, asked.length === 0 ? 'skipped' : 'passed');
        context.setHeader('x-jailbreak-score', score.toFixed(3));
      },
    };
  },
});
