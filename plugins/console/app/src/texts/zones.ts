/** Texts of the choice of a time zone. */
export const zones = {
  title: 'Time zone',
  text: 'All times are shown and entered in it, in this browser. Links keep the same moments for everybody.',
  hint: 'Type a place, or a distance such as +5:30',
  none: 'No time zone has this name',
} as const;
