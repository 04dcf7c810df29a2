// The pieces that pages are made of.
import { type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { useDoing } from './loading'
import { go, type Place } from './router'

export function Page({ title, actions, children, above }: { title: ReactNode; above?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <>
      <header className="head">
        <div>
          {above && <p className="above">{above}</p>}
          <h1>{title}</h1>
        </div>
        <div className="actions">{actions}</div>
      </header>
      {children}
    </>
  )
}

export function Card({ title, children, actions, className = '' }: { title?: ReactNode; actions?: ReactNode; children: ReactNode; className?: string }) {
  return (
    <section className={`card ${className}`}>
      {(title !== undefined || actions !== undefined) && (
        <header>
          <h2>{title}</h2>
          <div className="actions">{actions}</div>
        </header>
      )}
      {children}
    </section>
  )
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

export function Badge({ tone = 'plain', children }: { tone?: 'plain' | 'good' | 'warn' | 'bad'; children: ReactNode }) {
  return <span className={`badge ${tone}`}>{children}</span>
}

/** A course of values; from zero up, or (`isLoose`) from the lowest up, where only the change counts. */
export function Sparkline({ values, label, width = 140, height = 32, isLoose = false }: { values: number[]; label: string; width?: number; height?: number; isLoose?: boolean }) {
  const low = isLoose ? Math.min(...values) : Math.min(0, ...values)
  const high = Math.max(...values, low + 1e-9)
  const step = width / Math.max(values.length - 1, 1)
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 2 - ((value - low) / (high - low)) * (height - 4)).toFixed(1)}`)
  return (
    <svg className="spark" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label} preserveAspectRatio="none">
      {values.length > 1 && <polygon points={`0,${height} ${points.join(' ')} ${width},${height}`} />}
      <polyline points={points.join(' ')} />
    </svg>
  )
}

export function Stat({ label, value, unit, values }: { label: string; value: string; unit?: string; values?: number[] }) {
  return (
    <div className="stat">
      <span className="label">{label}</span>
      <strong>
        {value} {unit && <small>{unit}</small>}
      </strong>
      {values && <Sparkline values={values} label={`${label} over the last minutes`} />}
    </div>
  )
}

export function Tabs({ tabs, place, chosen }: { tabs: Record<string, string>; place: Place; chosen: string }) {
  return (
    <nav className="tabs" aria-label="Views">
      {Object.entries(tabs).map(([tab, title]) => (
        <a key={tab} href={`#/${place.path.map(encodeURIComponent).join('/')}?tab=${tab}`} aria-current={tab === chosen ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  )
}

export function Field({ label, hint, children }: { label: string; hint?: ReactNode; children: (id: string) => ReactNode }) {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(id)}
      {hint && <small>{hint}</small>}
    </div>
  )
}

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    dialog.current?.showModal()
  }, [])
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={title}>
      <header>
        <h2>{title}</h2>
        <button className="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  )
}

/** A form whose button waits for the answer and shows why it was refused. */
export function Form({ onSubmit, submit, children, tone = 'primary', disabled = false }: { onSubmit: () => Promise<void>; submit: string; tone?: string; disabled?: boolean; children: ReactNode }) {
  const { isBusy, fault, doing } = useDoing()
  return (
    <form
      onSubmit={(event: FormEvent) => {
        event.preventDefault()
        doing(onSubmit)
      }}
    >
      {children}
      {fault && (
        <p className="notice bad" role="alert">
          {fault}
        </p>
      )}
      <button className={tone} disabled={isBusy || disabled}>
        {isBusy ? 'One moment …' : submit}
      </button>
    </form>
  )
}

/** Deleting asks for the name of what is deleted. */
export function DeleteDialog({ kind, name, consequence, onDelete, onClose }: { kind: string; name: string; consequence: string; onDelete: () => Promise<void>; onClose: () => void }) {
  const [typed, setTyped] = useState('')
  return (
    <Dialog title={`Delete ${kind} ${name}?`} onClose={onClose}>
      <p>{consequence}</p>
      <Form submit={`Delete ${kind}`} tone="danger" disabled={typed !== name} onSubmit={onDelete}>
        <Field label={`Type ${name} to confirm`}>{(id) => <input id={id} value={typed} autoComplete="off" autoFocus onChange={(event) => setTyped(event.target.value)} />}</Field>
      </Form>
    </Dialog>
  )
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [isDone, setIsDone] = useState(false)
  async function copy(): Promise<void> {
    await navigator.clipboard?.writeText(text)
    setIsDone(true)
    setTimeout(() => setIsDone(false), 1500)
  }
  return (
    <button type="button" className="quiet" onClick={() => void copy()}>
      {isDone ? 'Copied' : label}
    </button>
  )
}

export function Snippets({ of }: { of: Record<string, string> }) {
  const names = Object.keys(of)
  const [chosen, setChosen] = useState(names[0] ?? '')
  const text = of[chosen] ?? ''
  return (
    <div className="snippets">
      <div className="actions">
        <div role="tablist" aria-label="Languages">
          {names.map((name) => (
            <button key={name} type="button" role="tab" aria-selected={name === chosen} onClick={() => setChosen(name)}>
              {name}
            </button>
          ))}
        </div>
        <Copy text={text} />
      </div>
      <pre tabIndex={0}>{text}</pre>
    </div>
  )
}

/** A table in a box that scrolls by itself on narrow screens. */
export function Table({ columns, children, label }: { columns: string[]; label: string; children: ReactNode }) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map((column, index) =>
              column === '' ? (
                <td key={index} />
              ) : (
                <th key={index} scope="col" className={column.startsWith('#') ? 'number' : ''}>
                  {column.replace(/^#/, '')}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}

/** A row that opens a place, by mouse and by its first cell's link. */
export function openRow(path: string[], query: Record<string, string> = {}): { className: string; onClick: (event: { target: EventTarget }) => void } {
  return {
    className: 'open',
    onClick: (event) => {
      if (!(event.target as HTMLElement).closest('a, button, input, select')) go(path, query)
    },
  }
}
