// Package peer finds out which process is at the other end of a local connection, and whether it is part of a session. An agent
// is a local process: what it can reach must not take it for the operator.
package peer

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

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
