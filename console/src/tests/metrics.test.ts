import { expect, test } from 'vitest'
import { byLabel, quantile, rate, readMetrics, total } from '../metrics'

const TEXT = `# HELP chordmq_records_in_total Records appended since the start.
# TYPE chordmq_records_in_total counter
chordmq_records_in_total{topic="orders"} 30.0
chordmq_records_in_total{topic="a\\"b"} 12.0
chordmq_disk_is_low 0.0
lag_bucket{le="0.01"} 90.0
lag_bucket{le="0.1"} 99.0
lag_bucket{le="+Inf"} 100.0
`

test('metrics are summed over labels, and found by one', () => {
  const samples = readMetrics(TEXT)
  expect(total(samples, 'chordmq_records_in_total')).toBe(42)
  expect(total(samples, 'chordmq_records_in_total', { topic: 'orders' })).toBe(30)
  expect(total(samples, 'nothing')).toBeNull()
  expect(byLabel(samples, 'chordmq_records_in_total', 'topic').get('a"b')).toBe(12)
})

test('a quantile is the limit of the bucket that holds it', () => {
  expect(quantile(readMetrics(TEXT), 'lag', 0.99)).toBe(0.1)
  expect(quantile(readMetrics(''), 'lag', 0.99)).toBeNull()
})

test('a counter that begins again after a restart never has a negative rate', () => {
  const scrape = (at_ms: number, value: number) => ({ at_ms, samples: readMetrics(`made ${value}`) })
  expect(rate(scrape(0, 100), scrape(2000, 150), 'made')).toBe(25)
  expect(rate(scrape(0, 100), scrape(2000, 10), 'made')).toBe(5)
})
