// Devices: who has spoken when, and what they measure.
import { useEffect, useState } from 'react'
import { ApiError, get } from '../api'
import { DEVICES_TOPIC, type Device, seen } from '../devices'
import { count, duration } from '../format'
import { Loaded, useLoad } from '../loading'
import type { KnownDevice, StoredRecord } from '../model'
import { Badge, Empty, Page, Sparkline, Table } from '../parts'
import { readNewest, useTail } from '../records'
import { link } from '../router'
import { StartDemo } from './demo'

const RECORDS = 2000
const SILENT_MS = 60_000
const ROWS_MAX = 300

/** What the node itself knows; nothing on a node that keeps no devices. */
async function loadKnown(signal: AbortSignal): Promise<Map<string, KnownDevice>> {
  const { devices } = await get<{ devices: KnownDevice[] }>('v1/devices?limit=10000', signal).catch((error: unknown) => {
    if (error instanceof ApiError && error.status !== 0) return { devices: [] }
    throw error
  })
  return new Map(devices.map((device) => [device.id, device]))
}

async function load(signal: AbortSignal): Promise<StoredRecord[] | null> {
  try {
    return await readNewest(DEVICES_TOPIC, RECORDS, signal)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

export function Devices() {
  const loaded = useLoad(load, 'devices')
  const known = useLoad(loadKnown, 'known devices', 5000)
  const [devices, setDevices] = useState<Map<string, Device>>(new Map())
  const [search, setSearch] = useState('')
  useEffect(() => {
    if (loaded.data) setDevices(seen(new Map(), loaded.data))
  }, [loaded.data])
  const tail = useTail(loaded.data ? DEVICES_TOPIC : null, (records) => setDevices((before) => seen(before, records)))
  const silent = [...(known.data?.values() ?? [])].filter((device) => !devices.has(device.id)).map((device) => ({ id: device.id, seen_ms: device.seen_ms, messages: 0, metrics: new Map<string, number[]>() }))
  const shown = [...devices.values(), ...silent].filter((device) => device.id.includes(search)).sort((one, other) => other.seen_ms - one.seen_ms)
  return (
    <Page
      title="Devices"
      actions={
        <>
          {tail.state !== 'off' && (
            <small className={`live ${tail.state}`} role="status">
              {tail.state}
            </small>
          )}
          <StartDemo />
          <input type="search" aria-label="Search devices" placeholder="Search ( / )" value={search} onChange={(event) => setSearch(event.target.value)} />
        </>
      }
    >
      <Loaded from={loaded} what="devices">
        {() =>
          shown.length === 0 ? (
            <Empty title={search ? 'No device has this in its name' : 'No device has spoken yet'}>
              <p>
                Devices speak under <code>iotsphere/devices/&#123;device&#125;/telemetry/&#123;metric&#125;</code>, over MQTT or any other protocol: <a href="#/settings">Settings</a> has an example.
              </p>
            </Empty>
          ) : (
            <List devices={shown.slice(0, ROWS_MAX)} known={known.data ?? new Map<string, KnownDevice>()} />
          )
        }
      </Loaded>
      {shown.length > ROWS_MAX && <p className="dim">{count(shown.length - ROWS_MAX)} more; search for them.</p>}
    </Page>
  )
}

function List({ devices, known }: { devices: Device[]; known: Map<string, KnownDevice> }) {
  return (
    <Table label="Devices" columns={['Device', 'Connected', 'Last seen', '#Messages here', 'Newest readings', 'Course']}>
      {devices.map((device) => {
        const quiet = Date.now() - device.seen_ms
        const metrics = [...device.metrics]
        const [first] = metrics
        return (
          <tr key={device.id}>
            <td>
              <a href={link(['devices', device.id])}>{device.id}</a> <small>{known.get(device.id)?.model}</small>
            </td>
            <td>{known.get(device.id)?.is_connected ? <Badge tone="good">connected</Badge> : <span className="dim">no</span>}</td>
            <td>
              <Badge tone={quiet > SILENT_MS ? 'warn' : 'good'}>{device.seen_ms === 0 ? 'never' : quiet < 1000 ? 'now' : `${duration(quiet)} ago`}</Badge>
            </td>
            <td className="number">{count(device.messages)}</td>
            <td>{metrics.map(([metric, values]) => `${metric} ${values.at(-1)}`).join(', ') || <span className="dim">no numbers</span>}</td>
            <td>{first && <Sparkline isLoose values={first[1]} label={`${first[0]} of ${device.id}`} />}</td>
          </tr>
        )
      })}
    </Table>
  )
}
