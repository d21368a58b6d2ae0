package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Ident names a process. The start time keeps a reused pid from being mistaken for it.
type Ident struct {
	PID     int
	Started string // as /proc shows it
}

// Stat is what /proc says about a process.
type Stat struct {
	Ident

	Zombie bool
	parent int
	group  int
}

// ReadStat reads the state of one process.
func ReadStat(pid int) (Stat, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Stat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	// The name of the program is in parentheses and may itself contain parentheses and blanks.
	_, rest, ok := strings.Cut(string(data[max(0, bytes.LastIndexByte(data, ')')):]), " ")
	fields := strings.Fields(rest)
	const state, parent, group, started = 0, 1, 2, 19
	if !ok || len(fields) <= started {
		return Stat{}, fmt.Errorf("read process %d: unexpected format", pid)
	}
	ppid, err := strconv.Atoi(fields[parent])
	pgrp, err2 := strconv.Atoi(fields[group])
	if err := errors.Join(err, err2); err != nil {
		return Stat{}, fmt.Errorf("read process %d: %w", pid, err)
	}
	return Stat{
		Ident:  Ident{PID: pid, Started: fields[started]},
		Zombie: fields[state] == "Z" || fields[state] == "X",
		parent: ppid,
		group:  pgrp,
	}, nil
}

// Alive reports whether the process runs, not merely waits to be reaped.
func (id Ident) Alive() bool {
	st, err := ReadStat(id.PID)
	return err == nil && st.Started == id.Started && !st.Zombie
}

// PIDs lists the processes of this machine, without ourselves and the first one.
func PIDs() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	names, err := dir.Readdirnames(-1)
	err = errors.Join(err, dir.Close())
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	self := os.Getpid()
	out := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 1 && pid != self {
			out = append(out, pid)
		}
	}
	return out, nil
}

// withDescendants returns those of the roots that live, everything they started that lives, and everything in the process groups
// that they lead. A group outlives its leader, and its number is not given to another process before the group is empty.
func withDescendants(all []int, roots []Ident) []Ident {
	if len(roots) == 0 {
		return nil
	}
	children := make(map[int][]Ident)
	groups := make(map[int][]Ident)
	live := make(map[Ident]bool)
	leaders := make(map[int]string)
	for _, pid := range all {
		st, err := ReadStat(pid)
		if err != nil {
			continue
		}
		leaders[pid] = st.Started
		if st.Zombie {
			continue
		}
		live[st.Ident] = true
		children[st.parent] = append(children[st.parent], st.Ident)
		groups[st.group] = append(groups[st.group], st.Ident)
	}
	var out []Ident
	seen := make(map[Ident]bool)
	queue := append([]Ident{}, roots...)
	for _, id := range roots {
		if started, ok := leaders[id.PID]; !ok || started == id.Started {
			queue = append(queue, groups[id.PID]...)
		}
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		if seen[id] || !live[id] {
			continue
		}
		seen[id] = true
		out = append(out, id)
		queue = append(queue, children[id.PID]...)
	}
	return out
}

// Holders returns the processes whose environment holds a variable with this value.
func Holders(all []int, name, value string) []Ident {
	entry := []byte(name + "=" + value)
	var out []Ident
	for _, pid := range all {
		environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err != nil || !holdsEntry(environ, entry) {
			continue
		}
		if st, err := ReadStat(pid); err == nil && !st.Zombie {
			out = append(out, st.Ident)
		}
	}
	return out
}

// holdsEntry looks for one whole entry among entries that end with a NUL.
func holdsEntry(environ, entry []byte) bool {
	end := []byte{0}
	return bytes.Contains(slices.Concat(end, environ, end), slices.Concat(end, entry, end))
}

// mostAncestors bounds the walk from a process to the first one; a real tree is far less deep.
const mostAncestors = 64

// Member reports whether a process belongs to a session of this machine, and how that was found: by its cgroup, or because it, or
// a process that started it, carries a session key or was started by this supervisor. A process that cannot be read is reported as
// an error.
func Member(pid int) (how string, member bool, err error) {
	self := os.Getpid()
	for step := 0; pid > 1 && pid != self && step < mostAncestors; step++ {
		st, err := ReadStat(pid)
		if err != nil {
			return "", false, err
		}
		if group, in := sessionCgroup(pid); in {
			return "cgroup " + group, true, nil
		}
		if carriesKey(pid) {
			return fmt.Sprintf("session key in the environment of process %d", pid), true, nil
		}
		if st.parent == self {
			return fmt.Sprintf("process %d was started by the supervisor", pid), true, nil
		}
		pid = st.parent
	}
	return "", false, nil
}

// InSession reports whether this program itself was started inside a session.
func InSession() bool {
	if _, in := sessionCgroup(os.Getpid()); in || carriesKey(os.Getpid()) {
		return true
	}
	_, member, err := Member(os.Getppid())
	return err == nil && member
}

// sessionCgroup returns the session cgroup that a process is in. The group of the supervisor itself may have a similar name, for
// example claudeops-main.service, and does not count.
func sessionCgroup(pid int) (string, bool) {
	path, ok := unifiedCgroup(pid)
	if !ok {
		return "", false
	}
	own, _ := unifiedCgroup(os.Getpid())
	if pid != os.Getpid() && own != "/" {
		if rest, below := strings.CutPrefix(path, own+"/"); below {
			path = "/" + rest
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		if key, found := strings.CutPrefix(part, cgroupPrefix); found && len(key) >= shortestKey && FileNameSafe(key) {
			return part, true
		}
	}
	return "", false
}

// unifiedCgroup is the path of a process in the unified hierarchy, which is where sessions get their groups.
func unifiedCgroup(pid int) (string, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return path, true
		}
	}
	return "", false
}

// carriesKey reports whether the environment of a process has a session key.
func carriesKey(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	entry := []byte(KeyName + "=")
	return err == nil && (bytes.HasPrefix(data, entry) || bytes.Contains(data, append([]byte{0}, entry...)))
}

// SocketHolder returns the process of a session that has the socket with this inode open. Only the processes of sessions are looked
// at: the members of their cgroups or, where there are no cgroups, what this supervisor started.
func SocketHolder(inode uint64) (pid int, found bool) {
	want := fmt.Sprintf("socket:[%d]", inode)
	for _, id := range sessionProcesses() {
		dir := "/proc/" + strconv.Itoa(id.PID) + "/fd"
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it has ended
		}
		for _, e := range entries {
			if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && target == want {
				return id.PID, true
			}
		}
	}
	return 0, false
}

func sessionProcesses() []Ident {
	parents := cgroupParents()
	var out []Ident
	for _, parent := range parents {
		groups, err := os.ReadDir(parent)
		if err != nil {
			continue
		}
		for _, group := range groups {
			key, found := strings.CutPrefix(group.Name(), cgroupPrefix)
			if found && len(key) >= shortestKey && FileNameSafe(key) {
				out = append(out, membersBelow(parent+"/"+group.Name())...)
			}
		}
	}
	if len(parents) > 0 {
		return out
	}
	all, err := PIDs()
	if err != nil {
		return nil
	}
	var roots []Ident
	for _, pid := range all {
		if st, err := ReadStat(pid); err == nil && st.parent == os.Getpid() {
			roots = append(roots, st.Ident)
		}
	}
	return withDescendants(all, roots)
}

// membersBelow are the processes in a group and in those below it. A group that has just been removed has none.
func membersBelow(path string) []Ident {
	out := (&Cgroup{Path: path}).members()
	entries, err := os.ReadDir(path)
	if err != nil {
		return out
	}
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, membersBelow(path+"/"+e.Name())...)
		}
	}
	return out
}
