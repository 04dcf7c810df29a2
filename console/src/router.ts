// The place in the console is the part of the address after `#`, so that the node serves one page only.
import { useSyncExternalStore } from 'react'

export interface Place {
  path: string[]
  query: URLSearchParams
}

/** Read `#/topics/orders?tab=settings`. */
export function readPlace(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?')
  return { path: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) }
}

/** Write a place as a link. */
export function link(path: string[], query: Record<string, string> = {}): string {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString()
  return `#/${path.map(encodeURIComponent).join('/')}${asked ? `?${asked}` : ''}`
}

export function go(path: string[], query: Record<string, string> = {}): void {
  location.hash = link(path, query)
}

function subscribe(listener: () => void): () => void {
  addEventListener('hashchange', listener)
  return () => removeEventListener('hashchange', listener)
}

export function usePlace(): Place {
  return readPlace(useSyncExternalStore(subscribe, () => location.hash))
}
