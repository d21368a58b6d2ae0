// Package peer finds out which process is at the other end of a local connection, and whether it is part of a session. An agent
// is a local process: what it can reach must not take it for the operator.
package peer

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"claudeops/internal/agent/process"
)

// Group is the group whose members may use the control socket, besides the supervisor's own user and root.
const Group = "claudeops"

// Caller is what is known of the process at the other end.
type Caller struct {
	User string // its name, for the record
	PID  int    // 0 if it is outside our process table
	// Refusal is why it may not enter; empty: it may.
	Refusal string
	// Session is true if it was refused because it is part of a session.
	Session bool
}

// Rules say which users are those of agents.
type Rules struct {
	AgentUIDs []int
}

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
	found := Caller{User: userName(int(cred.Uid)), PID: int(cred.Pid)}
	found.Refusal, found.Session = r.judge(int(cred.Uid), int(cred.Pid))
	// Only now: a process that has ended may have left its number to another one, which was then examined in its place.
	if found.Refusal == "" && hasEnded(handle) {
		found.Refusal = "it ended before it could be examined"
	}
	return found, nil
}

func (r Rules) judge(uid, pid int) (refusal string, session bool) {
	if slices.Contains(r.AgentUIDs, uid) {
		return "it runs as the user of the agents", true
	}
	if pid > 0 {
		how, member, err := process.Member(pid)
		switch {
		case member:
			return "it is part of a session: " + how, true
		case err != nil && uid == os.Geteuid(): // agents run as this user
			return "it could not be examined", false
		}
	}
	if uid == os.Geteuid() || uid == 0 || inGroup(pid, uid) {
		return "", false
	}
	return fmt.Sprintf("user %s is neither the supervisor's user nor root nor in the group %s", userName(uid), Group), false
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

// inGroup reports whether a process has the rights of the group, by the kernel's list or by the database of users.
func inGroup(pid, uid int) bool {
	group, err := user.LookupGroup(Group)
	if err != nil {
		return false
	}
	if data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status"); err == nil && pid > 0 {
		for line := range strings.Lines(string(data)) {
			name, ids, _ := strings.Cut(line, ":")
			if (name == "Gid" || name == "Groups") && slices.Contains(strings.Fields(ids), group.Gid) {
				return true
			}
		}
	}
	who, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	ids, err := who.GroupIds()
	return err == nil && slices.Contains(ids, group.Gid)
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "uid " + strconv.Itoa(uid)
}
