/** Hierarchical names: filters with `+` and `#`, and the log topic and key that a name has at a node. */

const ILLEGAL = /[^A-Za-z0-9._-]/g

/** Return whether a filter matches a name. */
export function matches(filter, name) {
  if (name.startsWith("$") && !filter.startsWith("$")) return false
  const wanted = filter.split("/")
  const levels = name.split("/")
  for (const [at, level] of wanted.entries()) {
    if (level === "#") return at <= levels.length
    if (at === levels.length || (level !== "+" && level !== levels[at])) return false
  }
  return wanted.length === levels.length
}

/** Return the log topic and the key of a name, unless the node has rules that say otherwise. */
export function destination(name) {
  if (!name.includes("/")) return { topic: name, key: null }
  const [first, second, third] = name.split("/")
  const legal = (level) => level.replace(ILLEGAL, "_") || "_"
  return { topic: `${legal(first)}.${legal(second)}`, key: third ?? null }
}
