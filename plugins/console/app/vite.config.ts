import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig, loadEnv, type Plugin } from 'vite';

const sources = new URL('./src', import.meta.url).pathname;
/** Language of the texts: `en`, whose modules stand in `src/texts`, or the name of a folder there. */
const { WEIR_CONSOLE_LANGUAGE: language = 'en' } = loadEnv('', '.', 'WEIR_CONSOLE_');
if (!/^[a-z]{2,3}(-[A-Za-z0-9]+)*$/.test(language))
  throw new Error(`WEIR_CONSOLE_LANGUAGE is ${JSON.stringify(language)}: expected a language such as "de".`);

const texts: Plugin = {
  name: 'weir-texts',
  enforce: 'pre',
  transformIndexHtml: (html) => html.replace('<html lang="en">', `<html lang="${language}">`),
};

export default defineConfig({
  base: '/console/',
  plugins: [texts, react(), tailwind()],
  resolve: {
    alias: [
      ...(language === 'en'
        ? []
        : [{ find: /^@\/texts\/(\w+)$/, replacement: `${sources}/texts/${language}/$1.ts` }]),
      { find: '@', replacement: sources },
    ],
  },
  html: { cspNonce: '%NONCE%' },
  build: {
    emptyOutDir: true,
    target: 'es2023',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    reportCompressedSize: false,
  },
});
