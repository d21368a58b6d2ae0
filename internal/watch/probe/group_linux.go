package probe

import (
	"errors"

	"golang.org/x/sys/unix"
)

// endGroup waits for the leader of a process group to end and kills the processes it leaves behind. The leader is not reaped before
// that, so the id of the group cannot be reused.
func endGroup(leader int) {
	for {
		err := unix.Waitid(unix.P_PID, leader, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	_ = unix.Kill(-leader, unix.SIGKILL)
}
