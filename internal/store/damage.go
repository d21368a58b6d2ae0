package store

import "errors"

// Damaged reports whether an error says that the database itself is broken, and not only this call.
func Damaged(err error) bool { return errors.Is(err, ErrCorrupt) || isCorrupt(err) }
