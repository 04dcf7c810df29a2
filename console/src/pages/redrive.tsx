// Dead letters go back to where they came from.
import { useState } from 'react'
import { change, part } from '../api'
import { readDeadLetter, revived } from '../dead_letters'
import type { StoredRecord } from '../model'
import { Dialog, Form } from '../parts'

export function Redrive({ topic, records }: { topic: string; records: StoredRecord[] }) {
  const [isAsking, setIsAsking] = useState(false)
  const [sent, setSent] = useState('')
  const byOrigin = grouped(topic, records)
  async function send(): Promise<void> {
    for (const [origin, letters] of byOrigin) await change('POST', `v1/topics/${part(origin)}/records`, letters.map(revived))
    setIsAsking(false)
    setSent(`${records.length} sent again to ${[...byOrigin.keys()].join(', ')}.`)
  }
  return (
    <>
      <button className="quiet" onClick={() => setIsAsking(true)}>
        Re-drive {records.length === 1 ? 'it' : `all ${records.length}`}
      </button>
      {sent && <small role="status">{sent}</small>}
      {isAsking && (
        <Dialog title="Send dead letters again?" onClose={() => setIsAsking(false)}>
          <ul>
            {[...byOrigin].map(([origin, letters]) => (
              <li key={origin}>
                {letters.length} to <code>{origin}</code>
              </li>
            ))}
          </ul>
          <p>Key, value and headers are as they were; what says why they died is left out. The letters here stay until retention takes them.</p>
          <Form submit="Send again" onSubmit={send}>
            {null}
          </Form>
        </Dialog>
      )}
    </>
  )
}

function grouped(topic: string, records: StoredRecord[]): Map<string, StoredRecord[]> {
  const groups = new Map<string, StoredRecord[]>()
  for (const record of records) {
    const origin = readDeadLetter(topic, record)?.origin ?? topic
    groups.set(origin, [...(groups.get(origin) ?? []), record])
  }
  return groups
}
