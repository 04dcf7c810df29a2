// Simulated devices: the button that starts and stops them.
import { change, get } from '../api'
import { useDoing, useLoad } from '../loading'
import { go } from '../router'

interface Demo {
  running: boolean
  devices: number
}

const DEVICES = 200

export function StartDemo({ onDone }: { onDone?: () => void }) {
  const demo = useLoad((signal) => get<Demo>('v1/demo', signal), 'demo', 5000)
  const { isBusy, fault, doing } = useDoing()
  if (!demo.data) return null
  const isRunning = demo.data.running
  async function turn(): Promise<void> {
    await change<Demo>(isRunning ? 'DELETE' : 'POST', 'v1/demo', isRunning ? undefined : { devices: DEVICES })
    demo.reload()
    onDone?.()
    if (!isRunning) go(['devices'])
  }
  return (
    <>
      {fault && (
        <small role="alert" className="notice bad">
          {fault}
        </small>
      )}
      <button disabled={isBusy} onClick={() => doing(turn)}>
        {isRunning ? 'Stop demo devices' : 'Start demo devices'}
      </button>
    </>
  )
}
