// The node's public HTTP API: who we are, requests, and event streams.

export interface Credentials {
  /** What goes into the Authorization header. */
  authorization: string
  /** The user's name, as far as it is known. */
  name: string
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly fault: string,
    message: string,
  ) {
    super(message)
  }
}

const KEPT_UNDER = 'chordmq.credentials'
const NOT_REACHED = 0
const ELSEWHERE = 307

let credentials: Credentials | null = readKept()
let onLoginNeeded: () => void = () => undefined

function readKept(): Credentials | null {
  const kept = typeof sessionStorage === 'undefined' ? null : sessionStorage.getItem(KEPT_UNDER)
  return kept === null ? null : (JSON.parse(kept) as Credentials)
}

export function whoAmI(): Credentials | null {
  return credentials
}

/** Keep credentials until the tab is closed; null forgets them. */
export function keep(next: Credentials | null): void {
  credentials = next
  if (next === null) sessionStorage.removeItem(KEPT_UNDER)
  else sessionStorage.setItem(KEPT_UNDER, JSON.stringify(next))
}

export function withPassword(name: string, password: string): Credentials {
  const bytes = new TextEncoder().encode(`${name}:${password}`)
  return { authorization: `Basic ${btoa(String.fromCharCode(...bytes))}`, name }
}

export function withToken(token: string): Credentials {
  return { authorization: `Bearer ${token.trim()}`, name: 'token' }
}

/** Say what happens when the node wants to know who is there. */
export function setOnLoginNeeded(listener: () => void): void {
  onLoginNeeded = listener
}

function headers(more: Record<string, string> = {}): Record<string, string> {
  return credentials === null ? more : { ...more, authorization: credentials.authorization }
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let answer: Response
  try {
    // Without the browser's own credentials it opens no dialog of its own when they are refused.
    answer = await fetch(path, { ...init, credentials: 'omit', redirect: 'manual' })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new ApiError(NOT_REACHED, 'NotReached', 'the node does not answer')
  }
  if (answer.ok) return answer
  if (answer.type === 'opaqueredirect') throw new ApiError(ELSEWHERE, 'Elsewhere', 'another node of the cluster answers this')
  if (answer.status === 401) onLoginNeeded()
  const told = (await answer.json().catch(() => ({}))) as { error?: string; message?: string }
  throw new ApiError(answer.status, told.error ?? answer.statusText, told.message ?? `status ${answer.status}`)
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await send(path, { headers: headers(), ...(signal ? { signal } : {}) })
  return (await answer.json()) as T
}

export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  return (await send(path, { headers: headers(), ...(signal ? { signal } : {}) })).text()
}

export async function change<T>(method: 'POST' | 'PUT' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> {
  const answer = await send(path, {
    method,
    headers: headers(body === undefined ? {} : { 'content-type': 'application/json' }),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return (answer.status === 204 ? undefined : await answer.json()) as T
}

export interface ServerEvent {
  id: string
  event: string
  data: string
}

/** Split what has arrived of an event stream into whole events and the rest. */
export function readEvents(text: string): { events: ServerEvent[]; rest: string } {
  const blocks = text.split('\n\n')
  const rest = blocks.pop() ?? ''
  const events = blocks.map((block) => {
    const found: ServerEvent = { id: '', event: 'message', data: '' }
    for (const line of block.split('\n')) {
      const colon = line.indexOf(': ')
      const field = line.slice(0, colon)
      if (field === 'id' || field === 'event' || field === 'data') found[field] = line.slice(colon + 2)
    }
    return found
  })
  return { events: events.filter((one) => one.data !== ''), rest }
}

/** Follow an event stream until the signal ends it; comes back by itself where it stopped. */
export async function follow(
  path: string,
  signal: AbortSignal,
  on: { events: (events: ServerEvent[]) => void; state: (is: 'live' | 'lost') => void },
): Promise<void> {
  let last = ''
  for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 8000)) {
    try {
      const answer = await send(path, { headers: headers(last ? { 'last-event-id': last } : {}), signal })
      on.state('live')
      wait = 500
      const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const part = await reader?.read()
        if (!part || part.done) break
        const found = readEvents(rest + part.value)
        rest = found.rest
        for (const event of found.events) if (event.id) last = event.id
        if (found.events.length > 0) on.events(found.events)
      }
    } catch (error) {
      if (signal.aborted) return
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) throw error
    }
    on.state('lost')
    await new Promise((resolve) => setTimeout(resolve, wait))
  }
}

/** A part of a path or query. */
export const part = encodeURIComponent
