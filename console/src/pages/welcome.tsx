// What somebody sees who has just started an empty node.
import { useState } from 'react'
import { change, part } from '../api'
import type { TopicDetail } from '../model'
import { Card, Field, Form } from '../parts'
import { go } from '../router'
import { StartDemo } from './demo'

export function Welcome({ onDone }: { onDone: () => void }) {
  const [topic, setTopic] = useState('greetings')
  const [message, setMessage] = useState('hello')
  const [made, setMade] = useState('')
  return (
    <Card title="Welcome. This broker is empty: a few clicks, and something moves.">
      <div className="steps">
        <Form
          submit="Create topic"
          disabled={made !== ''}
          onSubmit={async () => {
            await change<TopicDetail>('POST', 'v1/topics', { name: topic })
            setMade(topic)
          }}
        >
          <Field label="1. A topic holds messages" hint={made ? `${made} is there.` : 'Letters, digits, dots, - and _.'}>
            {(id) => <input id={id} required pattern="[a-zA-Z0-9._\-]+" value={topic} onChange={(event) => setTopic(event.target.value)} />}
          </Field>
        </Form>
        <Form
          submit="Send message"
          disabled={made === ''}
          onSubmit={async () => {
            await change('POST', `v1/topics/${part(made)}/records`, { value: message })
            onDone()
            go(['topics', made])
          }}
        >
          <Field label="2. Send a message" hint="Every Kafka, MQTT, AMQP, HTTP and WebSocket client can read it.">
            {(id) => <input id={id} value={message} disabled={made === ''} onChange={(event) => setMessage(event.target.value)} />}
          </Field>
        </Form>
      </div>
      <p>
        <StartDemo onDone={onDone} />
      </p>
      <p className="dim">
        Or from a terminal: <code>chordmq demo</code> and <code>chordmq bench</code> make traffic, and <a href="#/settings">Settings</a> has snippets for your language.
      </p>
    </Card>
  )
}
