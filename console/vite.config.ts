// Builds the console into the Python package, each file also compressed, so that the node need not do it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

const OUTPUT = '../src/chordmq/fronts/admin/static'

function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      for (const entry of readdirSync(OUTPUT, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name)
        if (entry.isFile() && !path.endsWith('.gz')) writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }))
      }
    },
  }
}

export default defineConfig({
  base: './',
  plugins: [compressed()],
  build: { outDir: OUTPUT, emptyOutDir: true, assetsInlineLimit: 0, modulePreload: false },
  // `npm exec vite` serves the sources beside a node that runs with its usual ports.
  server: { proxy: Object.fromEntries(['/v1', '/metrics', '/ready', '/docs'].map((path) => [path, 'http://127.0.0.1:8080'])) },
})
