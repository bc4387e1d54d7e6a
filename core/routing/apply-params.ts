import type { ChangedBody } from '../pipeline/attempt-body.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { applyParamEdits } from './params/apply-param-edits.ts';
import { withModelInPath } from './params/model-in-path.ts';
import type { ParamEdits } from './params/param-edits.ts';

/** Changes the body that the present try sends as the config says; a model goes where the client's wire names it. */
export function applyParams(params: ParamEdits, exchange: Exchange, sent: ChangedBody): void {
  const call = exchange.dialect.readCall?.(exchange.path);
  const before = call === undefined ? undefined : member(sent, 'model');
  applyParamEdits(params, sent);
  if (call === undefined) return;
  const model = member(sent, 'model');
  if (model === before || typeof model !== 'string') return;
  sent.remove(['model']);
  exchange.path = withModelInPath(exchange.path, call.model, model);
}

function member({ json }: ChangedBody, name: string): unknown {
  return typeof json === 'object' && json !== null && !Array.isArray(json) ? json[name] : undefined;
}
