package control

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
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
}

// Rules say which users are those of agents.
type Rules struct {
	AgentUIDs []int
}

// judge says why a process may not enter; empty: it may.
func (r Rules) judge(uid, pid int) (refusal string) {
	if slices.Contains(r.AgentUIDs, uid) {
		return "it runs as the user of the agents"
	}
	if pid > 0 {
		how, member, err := process.Member(pid)
		switch {
		case member:
			return "it is part of a session: " + how
		case err != nil && uid == os.Geteuid(): // agents run as this user
			return "it could not be examined"
		}
	}
	if uid == os.Geteuid() || uid == 0 || inGroup(pid, uid) {
		return ""
	}
	return fmt.Sprintf("user %s is neither the supervisor's user nor root nor in the group %s", userName(uid), Group)
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

// OfTCP looks a loopback connection up in the kernel's socket table: remote is the caller's address, local ours. A connection that is
// not in the table belongs to a caller that has already gone.
func (r Rules) OfTCP(local, remote netip.AddrPort) (Caller, error) {
	row, found, err := lookUp(remote, local)
	if err != nil || !found {
		return Caller{}, err
	}
	out := Caller{User: userName(row.uid)}
	if slices.Contains(r.AgentUIDs, row.uid) {
		out.Refusal = "it runs as the user of the agents"
		return out, nil
	}
	if pid, held := process.SocketHolder(row.inode); held {
		out.PID = pid
		out.Refusal = fmt.Sprintf("process %d of a session opened the connection", pid)
	}
	return out, nil
}

// tableRow is one connection of the kernel's table.
type tableRow struct {
	uid   int
	inode uint64
}

// lookUp finds the end of a connection that has these addresses. A socket of the other family may carry an IPv4 connection.
func lookUp(own, other netip.AddrPort) (tableRow, bool, error) {
	var failed error
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			failed = err // there is no tcp6 without IPv6
			continue
		}
		row, found := scan(f, own, other)
		_ = f.Close()
		if found {
			return row, true, nil
		}
		if name == "/proc/net/tcp" {
			failed = nil
		}
	}
	if failed != nil && !os.IsNotExist(failed) {
		return tableRow{}, false, fmt.Errorf("read socket table: %w", failed)
	}
	return tableRow{}, false, nil
}

func scan(r io.Reader, own, other netip.AddrPort) (tableRow, bool) {
	const local, remote, uid, inode = 1, 2, 7, 9
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) <= inode || !same(fields[local], own) || !same(fields[remote], other) {
			continue
		}
		id, err := strconv.Atoi(fields[uid])
		number, err2 := strconv.ParseUint(fields[inode], 10, 64)
		if err == nil && err2 == nil && number != 0 { // 0: its process has closed it
			return tableRow{id, number}, true
		}
	}
	return tableRow{}, false
}

// same compares an address of the table, whose groups of four bytes are in the byte order of the machine.
func same(text string, want netip.AddrPort) bool {
	address, port, ok := strings.Cut(text, ":")
	if n, err := strconv.ParseUint(port, 16, 16); !ok || err != nil || uint16(n) != want.Port() {
		return false
	}
	raw, err := hex.DecodeString(address)
	if err != nil {
		return false
	}
	for from := 0; from+4 <= len(raw); from += 4 {
		if binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
			slices.Reverse(raw[from : from+4])
		}
	}
	got, ok := netip.AddrFromSlice(raw)
	return ok && got.Unmap() == want.Addr().Unmap()
}
