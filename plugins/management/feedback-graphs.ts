import { Type } from '../../core/pipeline/plugin.ts';
import { feedbackOverTime, type Graph } from './graph.ts';
import { Count, Figure } from './graph-values.ts';

/** Models that are shown: those with the most feedback. */
const mostModels = 1000;

/** The graphs of what people think of the answers. */
export const feedbackGraphs: readonly Graph[] = [
  {
    path: 'feedbacks',
    title: 'Feedback over time',
    ...feedbackOverTime({ total: Count('Pieces of feedback.') }, ({ total }) => ({ total })),
  },
  {
    path: 'feedbacks/scores',
    alias: 'feedbacks/score',
    title: 'Values of the feedback of a period',
    summary: { total: Count('Pieces of feedback.') },
    point: { score: Count('Value, from -10 to 10.'), total: Count('Pieces of feedback with it.') },
    async read(source) {
      const { totals } = await source.feedback('score');
      return {
        summary: { total: totals.reduce((sum, { total }) => sum + total, 0) },
        data_points: totals
          .map(({ split, total }) => ({ score: Number(split), total }))
          .sort((one, other) => one.score - other.score),
      };
    },
  },
  {
    path: 'feedbacks/weighted',
    title: 'Average feedback over time, by its weights',
    ...feedbackOverTime(
      { avg: Figure('Sum of value × weight over the sum of weights, from -10 to 10.') },
      ({ averageWeighted }) => ({ avg: averageWeighted }),
    ),
  },
  {
    path: 'feedbacks/ai-models',
    title: 'Feedback of a period by the models that answered',
    summary: {},
    point: {
      ai_model: Type.String({
        description:
          'Of the latest request of the trace that succeeded, as answered; empty where it is not known.',
      }),
      total: Count('Pieces of feedback.'),
      avg_weighted_feedback: Figure('Sum of value × weight over the sum of weights.'),
    },
    async read(source) {
      const { totals } = await source.feedback('model');
      const models = totals.toSorted((one, other) => other.total - one.total).slice(0, mostModels);
      return {
        summary: {},
        data_points: models.map(({ split = '', total, averageWeighted }) => ({
          ai_model: split,
          total,
          avg_weighted_feedback: averageWeighted,
        })),
      };
    },
  },
];
