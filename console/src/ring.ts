// Where nodes stand on the drawn ring, and how much of it each owns.
import type { NodeRow } from './model'

export interface Spot {
  node: NodeRow
  /** Around the ring, from 0 to 1. */
  turn: number
  /** The share that the node owns: from the node before it up to itself. */
  share: number
}

const WHOLE = 2n ** 64n

export function spots(nodes: NodeRow[]): Spot[] {
  const placed = nodes
    .map((node) => ({ node, place: node.place === '' ? 0n : BigInt(`0x${node.place}`) }))
    .sort((one, other) => (one.place < other.place ? -1 : one.place > other.place ? 1 : 0))
  return placed.map(({ node, place }, index) => {
    const before = placed.at(index - 1)?.place ?? place
    const owned = placed.length === 1 ? WHOLE : (place - before + WHOLE) % WHOLE
    return { node, turn: Number((place * 1_000_000n) / WHOLE) / 1_000_000, share: Number((owned * 1_000_000n) / WHOLE) / 1_000_000 }
  })
}

export function onCircle(turn: number, radius: number, centre: number): { x: number; y: number } {
  const angle = turn * 2 * Math.PI - Math.PI / 2
  return { x: centre + radius * Math.cos(angle), y: centre + radius * Math.sin(angle) }
}

/** The SVG path of the arc that ends at a spot. */
export function arc(spot: Spot, radius: number, centre: number): string {
  const share = Math.min(spot.share, 0.9999)
  const from = onCircle(spot.turn - share, radius, centre)
  const to = onCircle(spot.turn, radius, centre)
  return `M ${from.x} ${from.y} A ${radius} ${radius} 0 ${share > 0.5 ? 1 : 0} 1 ${to.x} ${to.y}`
}
