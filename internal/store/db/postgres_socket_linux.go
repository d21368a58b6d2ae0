package db

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitUnanswered makes the system drop a connection whose packets are not acknowledged.
func limitUnanswered(network, _ string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(deadAfter.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
