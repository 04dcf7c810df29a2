// Queues of AMQP clients: what waits, who consumes.
import { get } from '../api'
import { bytes, count } from '../format'
import { Loaded, useLoad } from '../loading'
import type { Queue } from '../model'
import { Badge, Empty, Page, Table } from '../parts'

export function Queues() {
  const queues = useLoad((signal) => get<{ queues: Queue[] }>('v1/queues', signal), 'queues', 3000)
  return (
    <Page title="Queues">
      <Loaded from={queues} what="queues">
        {({ queues: all }) =>
          all.length === 0 ? (
            <Empty title="No queues">
              <p>
                AMQP clients declare them; <a href="#/settings">Settings</a> has an example. Every message of a queue lies in a topic as well.
              </p>
            </Empty>
          ) : (
            <Table label="Queues" columns={['Queue', 'Host', '#Ready', '#Size', '#Not acknowledged', '#Consumers', '#Delivered', '#Done']}>
              {all.map((queue) => (
                <tr key={`${queue.vhost} ${queue.name}`}>
                  <td>
                    {queue.name} {!queue.durable && <Badge>ends with the node</Badge>}
                  </td>
                  <td>{queue.vhost}</td>
                  <td className="number">{count(queue.ready)}</td>
                  <td className="number">{bytes(queue.ready_bytes)}</td>
                  <td className="number">{count(queue.unacknowledged)}</td>
                  <td className="number">{count(queue.consumers)}</td>
                  <td className="number">{count(queue.delivered)}</td>
                  <td className="number">{count(queue.finished)}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Page>
  )
}
