// Who is connected, over which protocol, and what they consume.
import { useState } from 'react'
import { get } from '../api'
import { count, duration } from '../format'
import { Loaded, useLoad } from '../loading'
import type { ClientFacts, ConsumerFacts } from '../model'
import { Badge, Card, Empty, Page, Table } from '../parts'

export async function loadClients(signal: AbortSignal): Promise<{ clients: ClientFacts[]; consumers: ConsumerFacts[] }> {
  const [{ clients }, { consumers }] = await Promise.all([get<{ clients: ClientFacts[] }>('v1/clients', signal), get<{ consumers: ConsumerFacts[] }>('v1/consumers', signal)])
  return { clients, consumers }
}

export function Clients() {
  const loaded = useLoad(loadClients, 'clients', 4000)
  const [search, setSearch] = useState('')
  return (
    <Page title="Clients" actions={<input type="search" aria-label="Search clients" placeholder="Search ( / )" value={search} onChange={(event) => setSearch(event.target.value)} />}>
      <Loaded from={loaded} what="who is connected">
        {({ clients, consumers }) => (
          <>
            <Connected clients={clients.filter((client) => `${client.name} ${client.user} ${client.protocol} ${client.host}`.includes(search))} />
            {consumers.length > 0 && <Consuming consumers={consumers} />}
          </>
        )}
      </Loaded>
    </Page>
  )
}

function Connected({ clients }: { clients: ClientFacts[] }) {
  if (clients.length === 0)
    return (
      <Empty title="Nobody is connected for longer">
        <p>MQTT, AMQP, WebSocket, Cap'n Proto, gRPC and TCP clients are shown here. Kafka and HTTP clients come and go: the overview counts their connections, Groups shows consumers.</p>
      </Empty>
    )
  return (
    <Card title={`${clients.length} connected`}>
      <Table label="Clients" columns={['Name', 'Protocol', 'User', 'Host', 'Connected for', 'Subscriptions']}>
        {clients.map((client) => (
          <tr key={client.id}>
            <td>{client.name || client.id}</td>
            <td>
              <Badge>{client.protocol}</Badge>
            </td>
            <td>{client.user}</td>
            <td className="nowrap">{client.host}</td>
            <td className="nowrap">{duration(Date.now() - client.connected_ms)}</td>
            <td className="cut">{client.subscriptions.join(', ')}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}

function Consuming({ consumers }: { consumers: ConsumerFacts[] }) {
  return (
    <Card title="What they consume">
      <Table label="Consumers" columns={['Client', 'Protocol', 'Topic', 'Group', 'Index', '#Delivered', '#Not acknowledged', '#Lag']}>
        {consumers.map((consumer, index) => (
          <tr key={index}>
            <td>{consumer.name || consumer.client}</td>
            <td>{consumer.protocol}</td>
            <td>{consumer.topic}</td>
            <td>{consumer.group}</td>
            <td>{consumer.index}</td>
            <td className="number">{count(consumer.delivered)}</td>
            <td className="number">{count(consumer.unacknowledged)}</td>
            <td className="number">{count(consumer.lag)}</td>
          </tr>
        ))}
      </Table>
    </Card>
  )
}
