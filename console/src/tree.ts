// Where the nodes of a tree are drawn: parents above the middle of their children.
export interface TreeNode {
  id: string
  parent: string | null
}

export interface Placed {
  id: string
  /** In columns and rows. */
  x: number
  y: number
}

/** Place every node; one whose parent is not there stands at the top. */
export function layOut(nodes: TreeNode[]): Placed[] {
  const known = new Set(nodes.map((node) => node.id))
  const children = new Map<string, string[]>()
  const roots: string[] = []
  for (const { id, parent } of [...nodes].sort((one, other) => one.id.localeCompare(other.id))) {
    if (parent === null || !known.has(parent)) roots.push(id)
    else children.set(parent, [...(children.get(parent) ?? []), id])
  }
  const placed: Placed[] = []
  let column = 0
  function place(id: string, y: number): number {
    const below = (children.get(id) ?? []).map((child) => place(child, y + 1))
    const x = below.length === 0 ? column++ : ((below[0] ?? 0) + (below.at(-1) ?? 0)) / 2
    placed.push({ id, x, y })
    return x
  }
  for (const root of roots) place(root, 0)
  return placed
}
