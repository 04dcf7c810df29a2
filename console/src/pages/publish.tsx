// Send a message from the browser.
import { useState } from 'react'
import { change, get, part, whoAmI } from '../api'
import { readJson } from '../format'
import { useLoad } from '../loading'
import type { Info, TopicDetail } from '../model'
import { Card, Field, Form, Snippets } from '../parts'
import { addresses, sendOne } from '../snippets'

interface Published {
  records: { partition: number; offset: number | null; message?: string }[]
}

export function Publish({ topic }: { topic: TopicDetail }) {
  const [key, setKey] = useState('')
  const [value, setValue] = useState('')
  const [encoding, setEncoding] = useState('utf-8')
  const [partition, setPartition] = useState('')
  const [headers, setHeaders] = useState('')
  const [done, setDone] = useState('')
  const info = useLoad((signal) => get<Info>('v1/info', signal), 'info')
  async function send(): Promise<void> {
    setDone('')
    if (encoding === 'json' && readJson(value) === undefined) throw new Error('The value is no JSON.')
    const answer = await change<Published>('POST', `v1/topics/${part(topic.name)}/records`, {
      value,
      encoding: encoding === 'base64' ? 'base64' : 'utf-8',
      ...(key !== '' && { key }),
      ...(partition !== '' && { partition: Number(partition) }),
      headers: readHeaders(headers),
    })
    const [place] = answer.records
    if (!place || place.offset === null) throw new Error(place?.message ?? 'The message was not stored.')
    setDone(`Stored in partition ${place.partition} at offset ${place.offset}.`)
  }
  return (
    <Card title="Send a message">
      <Form submit="Send" onSubmit={send}>
        <div className="row">
          <Field label="Key">{(id) => <input id={id} placeholder="none" value={key} onChange={(event) => setKey(event.target.value)} />}</Field>
          <Field label="Value is">
            {(id) => (
              <select id={id} value={encoding} onChange={(event) => setEncoding(event.target.value)}>
                <option value="utf-8">text</option>
                <option value="json">JSON (checked)</option>
                <option value="base64">bytes in base64</option>
              </select>
            )}
          </Field>
          <Field label="Partition">
            {(id) => (
              <select id={id} value={partition} onChange={(event) => setPartition(event.target.value)}>
                <option value="">the key decides</option>
                {topic.partitions.map((row) => (
                  <option key={row.partition}>{row.partition}</option>
                ))}
              </select>
            )}
          </Field>
        </div>
        <Field label="Value">{(id) => <textarea id={id} value={value} onChange={(event) => setValue(event.target.value)} />}</Field>
        <details>
          <summary>Headers</summary>
          <Field label="One a line: name: value">{(id) => <textarea id={id} value={headers} onChange={(event) => setHeaders(event.target.value)} />}</Field>
        </details>
        {done && (
          <p className="notice" role="status">
            {done}
          </p>
        )}
      </Form>
      {info.data && (
        <details>
          <summary>The same from a terminal or a program</summary>
          <Snippets of={sendOne(topic.name, { key, value }, addresses(info.data, location.origin, whoAmI() !== null))} />
        </details>
      )}
    </Card>
  )
}

export function readHeaders(text: string): { name: string; value: string }[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.map((line) => {
    const at = line.indexOf(':')
    if (at < 1) throw new Error(`${line}: write name: value`)
    return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() }
  })
}
