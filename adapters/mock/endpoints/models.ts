import { jsonAnswer, type MockAnswer } from '../answer.ts';
import type { MockRequest } from '../context.ts';
import { MockProblem } from '../problem.ts';

const ids = [
  'mock-gpt',
  'mock-gpt-mini',
  'mock-embedding',
  'mock-rerank',
  'mock-image',
  'mock-speech',
  'text-moderation-latest',
  'text-moderation-stable',
  'gpt-4o-mini-2024-07-18',
];

/** GET /models. */
export function listModels(): MockAnswer {
  return jsonAnswer({ object: 'list', data: ids.map(record) });
}

/** GET /models/{id}; any name that begins with `mock` exists. */
export function getModel(request: MockRequest): MockAnswer {
  const id = request.params[0] ?? '';
  if (!ids.includes(id) && !/^mock($|[-:])/.test(id)) {
    throw new MockProblem(404, `The model '${id.slice(0, 200)}' does not exist.`, {
      param: 'model',
      code: 'model_not_found',
    });
  }
  return jsonAnswer(record(id));
}

function record(id: string): object {
  return { id, object: 'model', created: 1_759_276_800, owned_by: 'mock' };
}
