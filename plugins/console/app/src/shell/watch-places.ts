import { Download, ThumbsUp } from 'lucide-react';
import type { Place } from '@/shell/places';
import { common } from '@/texts/common';

const { nav, words } = common;

/** Places that follow the log and the traces. */
export const watchPlaces: readonly Place[] = [
  {
    ...{ path: '/feedback', text: nav.feedback, group: 'watch', icon: ThumbsUp, scopes: ['analytics.view'] },
    words: words.feedback,
    page: () => import('@/pages/feedback/feedback'),
  },
  {
    ...{ path: '/exports', text: nav.exports, group: 'watch', icon: Download, scopes: ['logs.export'] },
    words: words.exports,
    page: () => import('@/pages/exports/exports'),
  },
];
