// The frame around all pages: navigation, keys, theme and login.
import { lazy, Suspense, useEffect, useState } from 'react'
import { keep, setOnLoginNeeded, whoAmI } from './api'
import { Login } from './login'
import { Overview } from './pages/overview'
import { Empty } from './parts'
import { go, link, type Place, usePlace } from './router'

const Topics = lazy(() => import('./pages/topics').then((module) => ({ default: module.Topics })))
const Topic = lazy(() => import('./pages/topic').then((module) => ({ default: module.Topic })))
const Groups = lazy(() => import('./pages/groups').then((module) => ({ default: module.Groups })))
const Group = lazy(() => import('./pages/group').then((module) => ({ default: module.Group })))
const ClusterPage = lazy(() => import('./pages/cluster').then((module) => ({ default: module.ClusterPage })))
const Topology = lazy(() => import('./pages/topology').then((module) => ({ default: module.Topology })))
const Clients = lazy(() => import('./pages/clients').then((module) => ({ default: module.Clients })))
const Devices = lazy(() => import('./pages/devices').then((module) => ({ default: module.Devices })))
const DevicePage = lazy(() => import('./pages/device').then((module) => ({ default: module.DevicePage })))
const Queues = lazy(() => import('./pages/queues').then((module) => ({ default: module.Queues })))
const Pipeline = lazy(() => import('./pages/pipeline').then((module) => ({ default: module.Pipeline })))
const Security = lazy(() => import('./pages/security').then((module) => ({ default: module.Security })))
const Settings = lazy(() => import('./pages/settings').then((module) => ({ default: module.Settings })))

/** Pages in the menu, with the key that follows `g`. */
const PAGES: { path: string; title: string; key: string }[] = [
  { path: '', title: 'Overview', key: 'o' },
  { path: 'topics', title: 'Topics', key: 't' },
  { path: 'groups', title: 'Groups', key: 'g' },
  { path: 'queues', title: 'Queues', key: 'q' },
  { path: 'clients', title: 'Clients', key: 'c' },
  { path: 'cluster', title: 'Cluster', key: 'r' },
  { path: 'topology', title: 'Topology', key: 'y' },
  { path: 'devices', title: 'Devices', key: 'd' },
  { path: 'pipeline', title: 'Pipeline', key: 'p' },
  { path: 'security', title: 'Security', key: 's' },
  { path: 'settings', title: 'Settings', key: 'e' },
]
const THEMES = ['system', 'light', 'dark'] as const

export function App() {
  const [needsLogin, setNeedsLogin] = useState(false)
  const [session, setSession] = useState(0)
  const place = usePlace()
  useKeys()
  useEffect(() => setOnLoginNeeded(() => setNeedsLogin(true)), [])
  useEffect(() => {
    const page = PAGES.find((one) => one.path === (place.path[0] ?? ''))
    document.title = `${place.path[1] ?? page?.title ?? 'Not here'} · ChordMQ`
  }, [place.path])
  if (needsLogin)
    return (
      <Login
        onDone={() => {
          setNeedsLogin(false)
          setSession((before) => before + 1)
        }}
      />
    )
  return (
    <div className="shell">
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>('main')?.focus())}>
        Skip to content
      </a>
      <header className="side">
        <a className="brand" href="#/">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="6.5" />
            <path d="M2.4 4.8 13.6 11.2M8 1.5v13M2.4 11.2 13.6 4.8" />
          </svg>
          <span>ChordMQ</span>
        </a>
        <nav aria-label="Pages">
          {PAGES.map(({ path, title, key }) => (
            <a key={path} href={link([path].filter(Boolean))} aria-current={(place.path[0] ?? '') === path ? 'page' : undefined}>
              {title} <kbd title={`Press g, then ${key}`}>g {key}</kbd>
            </a>
          ))}
        </nav>
        <Foot
          onLogOut={() => {
            keep(null)
            setSession((before) => before + 1)
            setNeedsLogin(true)
          }}
        />
      </header>
      <main id="main" tabIndex={-1} key={session}>
        <Suspense fallback={<div className="waiting"><div className="bone" /></div>}>
          <Shown place={place} />
        </Suspense>
      </main>
    </div>
  )
}

function Shown({ place }: { place: Place }) {
  const [page = '', name] = place.path
  switch (page) {
    case '':
      return <Overview />
    case 'topics':
      return name === undefined ? <Topics /> : <Topic key={name} name={name} place={place} />
    case 'groups':
      return name === undefined ? <Groups /> : <Group key={name} name={name} />
    case 'queues':
      return <Queues />
    case 'clients':
      return <Clients />
    case 'cluster':
      return <ClusterPage />
    case 'topology':
      return <Topology />
    case 'devices':
      return name === undefined ? <Devices /> : <DevicePage key={name} id={name} />
    case 'pipeline':
      return <Pipeline />
    case 'security':
      return <Security place={place} />
    case 'settings':
      return <Settings />
    default:
      return (
        <>
          <h1>Not here</h1>
          <Empty title="There is no such page">
            <a href="#/">Back to the overview</a>
          </Empty>
        </>
      )
  }
}

function Foot({ onLogOut }: { onLogOut: () => void }) {
  const [theme, setTheme] = useState(() => localStorage.getItem('chordmq.theme') ?? 'system')
  useEffect(() => {
    document.documentElement.dataset.theme = theme
    localStorage.setItem('chordmq.theme', theme)
  }, [theme])
  const me = whoAmI()
  return (
    <div className="foot">
      {me && (
        <span>
          <span className="who">{me.name} · </span>
          <button className="quiet" onClick={onLogOut}>
            Log out
          </button>
        </span>
      )}
      <select aria-label="Colours" value={theme} onChange={(event) => setTheme(event.target.value)}>
        {THEMES.map((one) => (
          <option key={one} value={one}>
            {one === 'system' ? 'system colours' : one}
          </option>
        ))}
      </select>
      <a className="who" href="docs">
        HTTP API
      </a>
    </div>
  )
}

/** `g` and a letter opens a page, `/` goes to the page's search field. */
function useKeys(): void {
  useEffect(() => {
    let isGoing = false
    function onKey(event: KeyboardEvent): void {
      const target = event.target as HTMLElement
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return
      const page = isGoing ? PAGES.find((one) => one.key === event.key) : undefined
      isGoing = event.key === 'g' && page === undefined
      if (page) go([page.path].filter(Boolean))
      if (event.key === '/') {
        event.preventDefault()
        document.querySelector<HTMLElement>('main [type=search]')?.focus()
      }
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}
