package store

// WriteLock is what a writer on a server takes first.
const WriteLock int64 = writeLock
