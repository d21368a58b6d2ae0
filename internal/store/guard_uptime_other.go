//go:build !linux

package store

import "time"

// systemUptime knows of no clock that goes on while the machine sleeps.
func systemUptime() Uptime {
	return func() (string, time.Duration) { return "", 0 }
}
