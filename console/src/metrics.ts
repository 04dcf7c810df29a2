// Reads Prometheus' text form, and makes rates of counters.

export interface Sample {
  name: string
  labels: Record<string, string>
  value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g

export function readMetrics(text: string): Sample[] {
  const samples: Sample[] = []
  for (const line of text.split('\n')) {
    const found = line.startsWith('#') ? null : LINE.exec(line)
    if (!found) continue
    const labels: Record<string, string> = {}
    for (const [, name = '', value = ''] of (found[2] ?? '').matchAll(LABEL)) labels[name] = value.replace(/\\(.)/g, '$1')
    samples.push({ name: found[1] ?? '', labels, value: Number(found[3]) })
  }
  return samples
}

/** The sum over all labels, or over those samples that have one label's value; null if there is none. */
export function total(samples: Sample[], name: string, labels: Record<string, string> = {}): number | null {
  const fitting = samples.filter(
    (sample) => sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  )
  return fitting.length === 0 ? null : fitting.reduce((sum, sample) => sum + sample.value, 0)
}

export function byLabel(samples: Sample[], name: string, label: string): Map<string, number> {
  const sums = new Map<string, number>()
  for (const sample of samples) {
    const value = sample.labels[label]
    if (sample.name === name && value !== undefined) sums.set(value, (sums.get(value) ?? 0) + sample.value)
  }
  return sums
}

/** The value below which a share of a histogram's observations lies, in its own unit; null without any. */
export function quantile(samples: Sample[], name: string, share: number): number | null {
  const buckets = samples
    .filter((sample) => sample.name === `${name}_bucket`)
    .map((sample) => ({ limit: Number((sample.labels.le ?? '').replace('+Inf', 'Infinity')), count: sample.value }))
    .sort((one, other) => one.limit - other.limit)
  const count = buckets.at(-1)?.count ?? 0
  if (count === 0) return null
  return buckets.find((bucket) => bucket.count >= share * count)?.limit ?? null
}

export interface Scrape {
  at_ms: number
  samples: Sample[]
}

/** What a counter gains in a second between two scrapes; a restart of the node counts from zero. */
export function rate(before: Scrape, after: Scrape, name: string, labels: Record<string, string> = {}): number {
  const seconds = (after.at_ms - before.at_ms) / 1000
  const first = total(before.samples, name, labels) ?? 0
  const last = total(after.samples, name, labels) ?? 0
  if (seconds <= 0) return 0
  return (last >= first ? last - first : last) / seconds
}
