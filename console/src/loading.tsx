// Loading: every page has the same four states: waiting, failed, forbidden, there.
import { type ReactNode, useCallback, useEffect, useRef, useState } from 'react'
import { ApiError } from './api'

export interface Loadable<T> {
  data: T | undefined
  error: Error | undefined
  reload: () => void
}

/** Load something now, when a key changes, and then again and again if told so. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, key: string, every_ms = 0): Loadable<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: Error }>({ key })
  const [turn, setTurn] = useState(0)
  const latest = useRef(load)
  latest.current = load
  useEffect(() => {
    const ending = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    async function once(): Promise<void> {
      try {
        const data = await latest.current(ending.signal)
        if (!ending.signal.aborted) setState({ key, data })
      } catch (error) {
        if (ending.signal.aborted) return
        // What is there stays in sight while a node restarts.
        const isGone = error instanceof ApiError && error.status >= 400 && error.status < 500
        setState((before) => (isGone || before.key !== key ? { key, error: error as Error } : { ...before, key, error: error as Error }))
      }
      if (every_ms > 0 && !ending.signal.aborted) timer = setTimeout(() => void once(), every_ms)
    }
    void once()
    return () => {
      ending.abort()
      clearTimeout(timer)
    }
  }, [key, turn, every_ms])
  const reload = useCallback(() => setTurn((before) => before + 1), [])
  const isMine = state.key === key
  return { data: isMine ? state.data : undefined, error: isMine ? state.error : undefined, reload }
}

export function Loaded<T>({ from, children, what }: { from: Loadable<T>; what: string; children: (data: T) => ReactNode }) {
  if (from.data === undefined) {
    if (from.error !== undefined) return <Fault error={from.error} what={what} onRetry={from.reload} />
    return (
      <div className="waiting" role="status" aria-label={`Loading ${what}`}>
        <div className="bone" />
        <div className="bone" />
        <div className="bone short" />
      </div>
    )
  }
  return (
    <>
      {from.error !== undefined && (
        <p className="notice warn" role="status">
          Shown as it was: {from.error.message}.
        </p>
      )}
      {children(from.data)}
    </>
  )
}

export function Fault({ error, what, onRetry }: { error: Error; what: string; onRetry?: () => void }) {
  const status = error instanceof ApiError ? error.status : -1
  if (status === 403)
    return (
      <div className="state forbidden" role="alert">
        <h2>You may not see {what}</h2>
        <p>{error.message}. An administrator can allow it under Security, or with <code>chordmq acls add</code>.</p>
      </div>
    )
  if (status === 401)
    return (
      <div className="state" role="alert">
        <h2>Log in to see {what}</h2>
      </div>
    )
  if (status === 307)
    return (
      <div className="state" role="alert">
        <h2>Another node knows this</h2>
        <p>
          {error.message}: open its console from the <a href="#/cluster">Cluster</a> page.
        </p>
      </div>
    )
  return (
    <div className="state error" role="alert">
      <h2>{status === 404 ? 'Not here' : status === 0 ? 'The node does not answer' : `Could not load ${what}`}</h2>
      <p>{error.message}.</p>
      {onRetry && <button onClick={onRetry}>Try again</button>}
    </div>
  )
}

/** Do something on request, and keep what came of it. */
export function useDoing(): { isBusy: boolean; fault: string; doing: (work: () => Promise<void>) => void; clear: () => void } {
  const [isBusy, setIsBusy] = useState(false)
  const [fault, setFault] = useState('')
  const doing = (work: () => Promise<void>): void => {
    setIsBusy(true)
    setFault('')
    work()
      .catch((error: unknown) => setFault(error instanceof Error ? error.message : String(error)))
      .finally(() => setIsBusy(false))
  }
  return { isBusy, fault, doing, clear: () => setFault('') }
}
