import { MemoryStore } from "../index.js"

/** Keeps everything in a file of Node. */
export class FileStore extends MemoryStore {
  constructor(path: string)
}
