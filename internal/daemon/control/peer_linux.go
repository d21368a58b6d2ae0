package control

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// OfUnix asks the kernel who opened a connection on a Unix socket.
func (r Rules) OfUnix(c *net.UnixConn) (Caller, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return Caller{}, fmt.Errorf("identify caller: %w", err)
	}
	var cred *unix.Ucred
	var handle int
	failed := raw.Control(func(fd uintptr) {
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			handle, err = openProcess(int(fd), int(cred.Pid))
		}
	})
	if err = errors.Join(failed, err); err != nil {
		return Caller{}, fmt.Errorf("identify caller: %w", err)
	}
	if handle >= 0 {
		defer func() { _ = unix.Close(handle) }()
	}
	found := Caller{User: userName(int(cred.Uid)), PID: int(cred.Pid), Refusal: r.judge(int(cred.Uid), int(cred.Pid))}
	// Only now: a process that has ended may have left its number to another one, which was then examined in its place.
	if found.Refusal == "" && hasEnded(handle) {
		found.Refusal = "it ended before it could be examined"
	}
	return found, nil
}

// openProcess returns a handle of the process that stays valid when its number is given to another one, or -1 if the kernel has none.
func openProcess(socket, pid int) (int, error) {
	handle, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	if err == nil {
		return handle, nil
	}
	if !errors.Is(err, unix.ENOPROTOOPT) && !errors.Is(err, unix.EINVAL) || pid <= 0 { // Linux before 6.5 does not know the option
		return -1, ignoreForeign(err, pid)
	}
	handle, err = unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		return -1, nil
	}
	if err != nil {
		return -1, err
	}
	return handle, nil
}

// ignoreForeign accepts that a process outside our process table has no handle: it cannot be part of a session.
func ignoreForeign(err error, pid int) error {
	if pid <= 0 {
		return nil
	}
	return err
}

func hasEnded(handle int) bool {
	if handle < 0 {
		return false
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0) //nolint:gosec // a descriptor is small
	return err == nil && n > 0
}
