package daemon

import "errors"

// Offline does something while no supervisor works on the state folder, and keeps one from starting meanwhile. A supervisor that
// runs is ops.ErrConflict.
func Offline(stateDir string, f func() error) error {
	l, err := takeLock(stateDir)
	if err != nil {
		return err
	}
	return errors.Join(f(), l.release())
}
