// All consumer groups, and how far each is behind.
import { useState } from 'react'
import { get, part } from '../api'
import { count } from '../format'
import { Loaded, useLoad } from '../loading'
import type { GroupRow, Lag } from '../model'
import { Badge, Empty, openRow, Page, Table } from '../parts'
import { link } from '../router'

const LAGS_MAX = 100

export interface GroupWithLag extends GroupRow {
  lag: number | null
  /** Records that the group has got through, by the sum of its offsets. */
  done: number
}

export async function loadGroups(signal: AbortSignal): Promise<GroupWithLag[]> {
  const { groups } = await get<{ groups: GroupRow[] }>('v1/groups', signal)
  const lags = await Promise.all(
    groups.slice(0, LAGS_MAX).map((row) =>
      get<Lag>(`v1/groups/${part(row.group)}/lag`, signal).then(
        (lag) => lag,
        () => null,
      ),
    ),
  )
  return groups.map((row, index) => ({ ...row, lag: lags[index]?.total_lag ?? null, done: lags[index]?.partitions.reduce((sum, one) => sum + one.committed, 0) ?? 0 }))
}

export function tone(state: string): 'good' | 'warn' | 'plain' {
  if (/^stable$/i.test(state)) return 'good'
  return /empty|dead/i.test(state) ? 'plain' : 'warn'
}

export function Groups() {
  const groups = useLoad(loadGroups, 'groups', 4000)
  const [search, setSearch] = useState('')
  return (
    <Page title="Groups" actions={<input type="search" aria-label="Search groups" placeholder="Search ( / )" value={search} onChange={(event) => setSearch(event.target.value)} />}>
      <Loaded from={groups} what="groups">
        {(all) => {
          const shown = all.filter((row) => row.group.includes(search))
          if (shown.length === 0)
            return (
              <Empty title={search ? 'No group has this in its name' : 'No consumer groups that you may see'}>
                <p>A group appears when a consumer with a group.id joins or commits.</p>
              </Empty>
            )
          return (
            <Table label="Groups" columns={['Group', 'State', '#Consumers', '#Lag', 'Kind']}>
              {shown.map((row) => (
                <tr key={row.group} {...openRow(['groups', row.group])}>
                  <td>
                    <a href={link(['groups', row.group])}>{row.group}</a>
                  </td>
                  <td>
                    <Badge tone={tone(row.state)}>{row.state}</Badge>
                  </td>
                  <td className="number">{row.members}</td>
                  <td className="number">{row.lag === null ? '–' : count(row.lag)}</td>
                  <td className="dim">{row.protocol_type || 'offsets only'}</td>
                </tr>
              ))}
            </Table>
          )
        }}
      </Loaded>
    </Page>
  )
}
