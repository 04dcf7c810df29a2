// One message: as JSON, Avro, text or bytes, with headers, and how to get it from a terminal.
import { useState } from 'react'
import { get, whoAmI } from '../api'
import { NotAvro, readAvro } from '../avro'
import { bytes, hex, readJson, time, toBytes } from '../format'
import { useLoad } from '../loading'
import type { Info, StoredRecord } from '../model'
import { Badge, Card, Copy, Field, Snippets } from '../parts'
import { addresses, readOne } from '../snippets'
import { readDeadLetter } from '../dead_letters'
import { Redrive } from './redrive'

const FORMS = ['JSON', 'Avro', 'text', 'hex'] as const

export function Message({ topic, record, onClose }: { topic: string; record: StoredRecord; onClose: () => void }) {
  const json = readJson(record.value)
  const isBinary = record.encoding === 'base64'
  const [form, setForm] = useState<(typeof FORMS)[number] | ''>('')
  const shown = form || (isBinary ? 'hex' : typeof json === 'object' && json !== null ? 'JSON' : 'text')
  const data = toBytes(record.value, record.encoding)
  const [schema, setSchema] = useSchema(topic)
  const text = write(shown)
  function write(as: (typeof FORMS)[number]): string {
    if (as === 'hex') return hex(data)
    if (as === 'Avro') return schema ? avro(data, schema) : 'Paste the schema.'
    if (as === 'JSON') return json === undefined ? 'This is no JSON.' : JSON.stringify(json, null, 2)
    return isBinary ? new TextDecoder().decode(data) : (record.value ?? '')
  }
  const dead = readDeadLetter(topic, record)
  return (
    <Card
      title={`Partition ${record.partition}, offset ${record.offset}`}
      actions={
        <button className="quiet" aria-label="Close message" onClick={onClose}>
          ✕
        </button>
      }
    >
      <p>
        <Badge>{time(record.timestamp)}</Badge> <Badge>{bytes(data.length)}</Badge> {isBinary && <Badge>not text</Badge>}
      </p>
      {dead && (
        <div className="notice warn">
          <p>
            Put aside from <a href={`#/topics/${encodeURIComponent(dead.origin)}`}>{dead.origin}</a>: {dead.reason}.
          </p>
          <Redrive topic={topic} records={[record]} />
        </div>
      )}
      <p>
        Key: {record.key === null ? <i className="dim">none</i> : <code>{record.key}</code>}
      </p>
      <div className="actions">
        {FORMS.map((one) => (
          <button key={one} className="quiet" aria-pressed={one === shown} onClick={() => setForm(one)}>
            {one}
          </button>
        ))}
        <Copy text={text} />
      </div>
      {shown === 'Avro' && (
        <Field label="Avro schema" hint="Kept in this browser, for this topic.">
          {(id) => <textarea id={id} rows={3} spellCheck={false} value={schema} onChange={(event) => setSchema(event.target.value)} />}
        </Field>
      )}
      <pre tabIndex={0}>{record.value === null ? 'No value: this deletes its key.' : text}</pre>
      {record.headers.length > 0 && (
        <table aria-label="Headers">
          <tbody>
            {record.headers.map((header, index) => (
              <tr key={index}>
                <th scope="row">{header.name}</th>
                <td className="mono">{header.value ?? 'none'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <CopyAs topic={topic} record={record} />
    </Card>
  )
}

function avro(data: Uint8Array, schema: string): string {
  try {
    return JSON.stringify(readAvro(data, schema), null, 2)
  } catch (error) {
    if (error instanceof NotAvro) return `This is not what the schema says: ${error.message}.`
    throw error
  }
}

/** The schema that somebody has pasted for a topic. */
function useSchema(topic: string): [string, (schema: string) => void] {
  const key = `chordmq.avro.${topic}`
  const [schema, setSchema] = useState(() => localStorage.getItem(key) ?? '')
  return [
    schema,
    (next) => {
      localStorage.setItem(key, next)
      setSchema(next)
    },
  ]
}

function CopyAs({ topic, record }: { topic: string; record: StoredRecord }) {
  const info = useLoad((signal) => get<Info>('v1/info', signal), 'info')
  if (!info.data) return null
  return <Snippets of={readOne(topic, record, addresses(info.data, location.origin, whoAmI() !== null))} />
}
