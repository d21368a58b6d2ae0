//go:build !linux

package control

import (
	"errors"
	"net"
)

// OfUnix refuses everyone: the daemon runs on Linux only.
func (r Rules) OfUnix(*net.UnixConn) (Caller, error) {
	_ = r.judge(-1, 0)
	return Caller{}, errors.New("identify caller: not possible on this system")
}
